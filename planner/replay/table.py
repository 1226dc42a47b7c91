"""Recorded runs from a CSV: `run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score`, a row a point.

`standard_error`, or `score_standard_error`, is that of the score. A further column that changes within a run is one
more measure of its progress and is left out; one that stays the same within each run and differs between runs is an
axis of the configuration.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Vector
from planner.curves.files import Table, read_table
from planner.curves.files.table import Flags, Rows, listing
from planner.replay.recorded import Recorded, RecordedRun
from planner.view import Axes, Configuration

NEEDED: Final = ("run", "rollouts_per_prompt", "prompts_per_batch", "seed", "gpu_hours", "score")
SETTINGS: Final = {"rollouts_per_prompt": 1, "prompts_per_batch": 1, "seed": 0}  # whole numbers, with their least
ERRORS: Final = ("standard_error", "score_standard_error")
# They measure how far a run has come, even where it has but one row.
PROGRESS: Final = frozenset(
    {"step", "steps", "update", "updates", "rollouts", "tokens", "seconds", "hours", "epoch", "epochs", "time"}
)

Value = str | float


@dataclass(frozen=True)
class ReadTable:
    """What a file holds, the columns that tell configurations apart beyond n and B, and what is to be said about it."""

    recorded: Recorded
    axes: tuple[str, ...]
    notes: tuple[str, ...]


def read_recorded(path: Path) -> ReadTable:
    """Read a table of recorded runs; InputError names the file, the run, the column and the line that it stands on."""
    return recorded_in(read_table(path)[0], path)


def recorded_in(table: Table, path: Path) -> ReadTable:
    """Return the runs of a table that was read already; `path` is how errors name it."""
    if missing := [name for name in NEEDED if name not in table.columns and name not in table.text]:
        raise InputError(
            f"'{path}' has no column {' or '.join(missing)}: a table of runs has {', '.join(NEEDED)}, and may have "
            f"{' or '.join(ERRORS)}, and columns of what else tells configurations apart. It has "
            f"{listing([*table.columns, *table.text])}"
        )
    notes = list(table.notes)
    of_runs = [(name, _scored(table, path, name, rows, notes)) for name, rows in _runs_of(table)]
    plain = {name: _cell(table, rows, f"'{path}', run '{name}'") for name, rows in of_runs}
    axes = _axes(table, of_runs, plain, notes)
    runs = tuple(_run(table, path, name, rows, plain[name], axes) for name, rows in of_runs)
    recorded = Recorded(runs)
    if len(recorded.configurations) < 2:
        (only,) = recorded.configurations
        raise InputError(
            f"'{path}' holds one configuration, n = {only.rollouts_per_prompt}, B = {only.prompts_per_batch}: there is "
            "nothing to choose between. Give a table with runs of at least two"
        )
    if outside := [run.name for run in runs if run.scores.min() < 0 or run.scores.max() > 1]:
        notes.append(
            f"scores outside of 0 to 1 in {listing(outside)}: policy rlplan takes scores for pass rates and reads them "
            "as 0 or 1; rescale them"
        )
    return ReadTable(recorded, tuple(axes), tuple(notes))


def _scored(table: Table, path: Path, run: str, rows: Rows, notes: list[str]) -> Rows:
    """Return the rows of a run that have a score, by GPU-hours."""
    place = f"'{path}', run '{run}'"
    if not run:
        raise InputError(f"'{path}': run is empty (line {_line(rows[0])}): name the run that each row belongs to")
    hours = _numbers(table, "gpu_hours", rows, place)
    _require(hours >= 0, rows, f"{place}: gpu_hours is below 0")
    scored = np.array([score is not None and np.isfinite(score) for score in _where_there(table, "score", rows, place)])
    if not scored.any():
        raise InputError(f"{place} has no score (lines {_line(rows[0])} to {_line(rows[-1])}): leave the run out")
    if missing := int((~scored).sum()):
        notes.append(f"run '{run}': {missing} of {rows.size} rows have no score and are left out")
    ordered = rows[scored][np.argsort(hours[scored], kind="stable")]
    hours = table.columns["gpu_hours"][ordered]
    twice = np.flatnonzero(np.diff(hours) == 0)
    if twice.size:
        first, second = ordered[twice[0] : twice[0] + 2]
        raise InputError(
            f"{place}: gpu_hours {hours[twice[0]]:g} occurs twice (lines {_line(first)} and {_line(second)}): "
            "keep one row of each, or name the runs differently if they are two"
        )
    return np.asarray(ordered)


def _cell(table: Table, rows: Rows, place: str) -> tuple[int, int, int]:
    """Return n, B and seed of a run: whole numbers, the same in all of its rows."""
    cell = []
    for name, least in SETTINGS.items():
        values = _numbers(table, name, rows, place)
        whole = (values >= least) & (values == np.rint(values))
        _require(whole, rows, f"{place}: {name} must be whole and ≥ {least}")
        _require(values == values[0], rows, f"{place}: {name} changes within the run; name each run differently")
        cell.append(int(values[0]))
    n, B, seed = cell
    return n, B, seed


def _run(
    table: Table, path: Path, name: str, rows: Rows, plain: tuple[int, int, int], axes: dict[str, dict[str, Value]]
) -> RecordedRun:
    n, B, seed = plain
    run_axes: Axes = tuple((axis, values[name]) for axis, values in axes.items() if name in values)
    return RecordedRun(
        name,
        Configuration(n, B, run_axes),
        seed,
        table.columns["gpu_hours"][rows],
        table.columns["score"][rows],
        _errors(table, path, name, rows),
    )


def _errors(table: Table, path: Path, run: str, rows: Rows) -> Vector | None:
    """Return the standard errors of a run's scores; None when they are not known of all of them."""
    place = f"'{path}', run '{run}'"
    for name in ERRORS:
        filled = [np.nan if error is None else error for error in _where_there(table, name, rows, place)]
        errors = np.asarray(filled, dtype=float)
        _require(~(errors < 0), rows, f"{place}: {name} is below 0")
        if np.isfinite(errors).all():
            return errors
    return None


def _axes(
    table: Table, of_runs: list[tuple[str, Rows]], plain: dict[str, tuple[int, int, int]], notes: list[str]
) -> dict[str, dict[str, Value]]:
    """Return the axes in alphabetical order, each with its value in every run that has one."""
    axes = {}
    # Some runs differ in their seeds alone: a column with another value in every run would, as an axis, make a
    # configuration of each, and no seed would be left to compare.
    seeds_differ = len(set(plain.values())) == len(plain) > len({(n, B) for n, B, _ in plain.values()})
    for column in sorted({*table.columns, *table.text} - {*NEEDED, *ERRORS}):
        if column.casefold() in PROGRESS:
            continue
        values = _values(table, column, of_runs)
        if values is None or len(set(values.values())) + (len(values) < len(of_runs)) < 2:
            continue
        if seeds_differ and len(set(values.values())) == len(plain):
            notes.append(f"column '{column}' has another value in every run: it is read as a name of runs, no axis")
            continue
        axes[column] = values
    return axes


def _values(table: Table, column: str, of_runs: list[tuple[str, Rows]]) -> dict[str, Value] | None:
    """Return a column's value in each run that has one; None when it changes within a run."""
    values: dict[str, Value] = {}
    for run, rows in of_runs:
        if column in table.text:
            distinct: set[Value] = {table.text[column][row] for row in rows} - {""}
        else:
            numbers_there = table.columns[column][rows]
            distinct = set(numbers_there[~np.isnan(numbers_there)].tolist())
        if len(distinct) > 1:
            return None
        values.update((run, value) for value in distinct)
    return values


def _runs_of(table: Table) -> Iterator[tuple[str, Rows]]:
    """Yield each run with its rows, in the order in which the runs begin."""
    labels = table.text.get("run") or [f"{value:g}" for value in table.columns["run"]]
    _, first, runs = np.unique(np.asarray(labels), return_index=True, return_inverse=True)
    for run in np.argsort(first):
        yield labels[first[run]], np.flatnonzero(runs == run)


def _numbers(table: Table, name: str, rows: Rows, place: str) -> Vector:
    """Return a column that must hold a number in each of the rows."""
    if name not in table.columns:
        raise InputError(f"{place}: {name} holds text: it must hold numbers")
    values = table.columns[name][rows]
    _require(np.isfinite(values), rows, f"{place}: {name} is missing or not a number")
    return values


def _where_there(table: Table, name: str, rows: Rows, place: str) -> list[float | None]:
    """Return a column that may be missing altogether or here and there, but holds no text."""
    if name in table.text and any(table.text[name]):
        raise InputError(f"{place}: {name} holds text: it must hold numbers, or nothing where there is none")
    values = table.columns.get(name)
    return [None if values is None or np.isnan(values[row]) else float(values[row]) for row in rows]


def _require(holds: Flags, rows: Rows, complaint: str) -> None:
    """Refuse the first row for which something does not hold; rows are counted as an editor shows them."""
    if not holds.all():
        raise InputError(f"{complaint} (line {_line(rows[int(np.argmin(holds))])})")


def _line(row: int) -> int:
    """Return the line of a file, as an editor counts, in which a row stands below the header."""
    return int(row) + 2
