"""Curves from tables: choose the columns, tell runs apart, splice restarts, and write down what was done."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.files.mixed import Part, named, split
from planner.curves.files.names import AXES, COUNTERS, TOTALS, columns_like, guess_score, resolve, unguessed
from planner.curves.files.sources import read_table
from planner.curves.files.table import Rows, Table, newest
from planner.logs.series import choose_score, trainer_of

# Words in a column's name that suit a percentage, and a score above which no other reading of [0, 100] is likely.
_PERCENT_WORDS = ("acc", "pass", "percent", "pct", "score", "%")
_SURELY_PERCENT = 20.0


@dataclass(frozen=True)
class _Columns:
    """The score, the column that counts steps in the file's order, and the x axis where it is settled already."""

    score: str
    counter: str
    axis: str | None


def read_curves(
    path: Path, *, x: str | None = None, y: str | None = None, by: str | None = None, percent: bool = False
) -> list[Curve]:
    """Read the learning curves of a file or directory; columns that are not named are guessed, and the notes say which.

    `by` names the column (or columns, with commas) that tells several curves apart, '' that there is but one;
    `percent` divides scores by 100. A run that was restarted is spliced, the newest attempt first. A trainer's log with
    several sets of validation problems is a curve for each.
    """
    curves: list[Curve] = []
    refusals: list[InputError] = []
    tables = read_table(path)
    for table in tables:
        try:
            curves += curves_of(table, x=x, y=y, by=by, percent=percent)
        except InputError as refusal:
            refusals.append(refusal)
    if not curves:
        raise refusals[0]
    if refusals:
        note = f"{len(refusals)} of {len(tables)} runs left out: {refusals[0]}"
        curves = [replace(curve, notes=(*curve.notes, note)) for curve in curves]
    return curves


def curves_of(
    table: Table, *, x: str | None = None, y: str | None = None, by: str | None = None, percent: bool = False
) -> list[Curve]:
    """Make the curves of one table, as `read_curves` does for a whole file."""
    trainer = trainer_of(table.columns, table.trainer) if y is None else None
    counts = {name: int((~np.isnan(values)).sum()) for name, values in table.columns.items() if name != x}
    choice = choose_score(trainer, counts) if trainer else None
    if choice is None:
        return _curves(table, x, y, by, percent=percent)
    curves = []
    for series in choice.series:
        label = choice.label(series)
        for curve in _curves(table, x, series, by, percent=percent):
            name = f"{curve.name}/{label}" if label else curve.name
            curves.append(replace(curve, name=name, notes=(*curve.notes, *choice.notes(series))))
    return curves


def _curves(table: Table, x: str | None, y: str | None, by: str | None, *, percent: bool) -> list[Curve]:
    columns = _choose(table, x, y, by)
    scores, counter = table.columns[columns.score], table.columns[columns.counter]
    placed = ~np.isnan(scores) & np.isfinite(counter)
    used = {columns.score, columns.counter} | ({columns.axis} if columns.axis else set())
    parts, notes = split(table, by, np.flatnonzero(placed), counter, used)
    usable: list[tuple[Part, Rows, tuple[str, ...]]] = []
    for part in parts:
        rows, spliced = newest(table, part.rows, placed, columns.counter)
        if (~np.isnan(scores[rows])).any():
            usable.append((part, rows, spliced))
    if not usable:
        raise InputError(
            f"no curve that {{by}} tells apart in '{table.name}' holds a score: name another column", by=None
        )
    axis = columns.axis or _guess_axis(table, [rows for _, rows, _ in usable], columns)
    if guessed := [f"x is '{axis}'"] * (x is None) + [f"the score is '{columns.score}'"] * (y is None):
        notes.append("guessed: " + ", ".join(guessed))
    if lost := int((~np.isnan(scores) & ~placed).sum()):
        notes.append(f"{lost} scores dropped: no {columns.counter} beside them")
    curves = []
    for part, rows, spliced in usable:
        scored = rows[placed[rows]]
        xs = _beside(table, axis, rows, scored, columns.counter)
        ys = scores[scored] / 100 if percent else scores[scored]
        all_notes = (*table.notes, *notes, *spliced, *([] if percent else _percentages(columns.score, ys)))
        curve = Curve.of(f"{table.name}/{part.label}" if part.label else table.name, xs, ys)
        curves.append(replace(curve, notes=(*all_notes, *curve.notes), x_name=axis, y_name=columns.score))
    return curves


def _choose(table: Table, x: str | None, y: str | None, by: str | None) -> _Columns:
    """Settle the score first, then the counter and the axis, which must be there wherever the score is."""
    axis = None if x is None else resolve(x, table, "x")
    score = _score(table, {axis, *named(table, by or "")}) if y is None else resolve(y, table, "y")
    scored = ~np.isnan(table.columns[score])
    if not scored.any():
        raise InputError(f"column '{score}' of '{table.name}' holds no numbers: name another with {{y}}", y=None)
    others = {name: values for name, values in table.columns.items() if name != score}
    complete = [name for name, values in others.items() if np.isfinite(values[scored]).all()]
    if axis is not None and axis in _known(COUNTERS, complete):
        return _Columns(score, axis, axis)
    counters = _known(COUNTERS, complete)
    if counters:
        return _Columns(score, counters[0], axis)
    if axis is None:
        axis = next(iter(_known(AXES, complete)), None) or (complete[0] if len(others) == 1 and complete else None)
    if axis is None:
        raise unguessed("x axis", table)
    return _Columns(score, axis, axis)


def _score(table: Table, used: Collection[str | None]) -> str:
    """Guess the score among the columns with at least two values, then among those with one."""
    for enough in (2, 1):
        filled = [name for name, values in table.columns.items() if int((~np.isnan(values)).sum()) >= enough]
        guess = guess_score(table, [name for name in filled if name not in used])
        if guess is not None:
            return guess
    raise unguessed("score", table)


def _known(patterns: tuple[str, ...], names: list[str]) -> list[str]:
    return list(dict.fromkeys(name for pattern in patterns for name in columns_like(pattern, names)))


def _guess_axis(table: Table, parts: list[Rows], columns: _Columns) -> str:
    """Choose the first total that is there for every score and never falls as steps go on; else the counter."""
    scores, counter = table.columns[columns.score], table.columns[columns.counter]
    for name in _known(TOTALS, [name for name in table.columns if name not in (columns.score, columns.counter)]):
        for rows in parts:
            scored = rows[~np.isnan(scores[rows]) & np.isfinite(counter[rows])]
            ordered = scored[np.argsort(counter[scored], kind="stable")]
            xs = _beside(table, name, rows, ordered, columns.counter)
            # A number that falls is one step's own (its tokens, its seconds), not the total so far.
            if not np.isfinite(xs).all() or (np.diff(xs) < 0).any() or (xs.size > 1 and xs[0] == xs[-1]):
                break
        else:
            return name
    return columns.counter


def _beside(table: Table, axis: str, rows: Rows, scored: Rows, counter: str) -> Vector:
    """Return the x of every score; where its own row lacks one, that of another row of the same step."""
    xs, steps = table.columns[axis], table.columns[counter]
    filled = xs[scored].copy()
    missing = np.flatnonzero(np.isnan(filled))
    if missing.size:
        donors = rows[~np.isnan(xs[rows])]
        by_step = dict(zip(steps[donors].tolist(), xs[donors].tolist(), strict=True))  # the last of a step counts
        filled[missing] = [by_step.get(step, np.nan) for step in steps[scored[missing]].tolist()]
    return filled


def _percentages(name: str, scores: Vector) -> list[str]:
    finite = scores[np.isfinite(scores)]
    if not finite.size or finite.min() < 0 or not 1.5 < finite.max() <= 100:
        return []
    if finite.max() <= _SURELY_PERCENT and not any(word in name.casefold() for word in _PERCENT_WORDS):
        return []
    return ["scores look like percentages; divide by 100 with --percent"]
