"""The tables of a sweep as rows: what it measured, was granted, decided, believed and concluded."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from planner.layering import flattened
from planner.store.curves import counting, every_point, present_attempts
from planner.store.schema import Fit, Segment, Sweep, Trial
from planner.store.totals import totals_of
from rlplan.reading.decisions import decisions as every_decision
from rlplan.reading.row_choice import axis_cells
from rlplan.reading.show_reading import SegmentRow
from rlplan.reading.sweep_picture import ScoreData
from rlplan.reading.sweep_reading import read_picture
from rlplan.wording.documents import plain
from rlplan.wording.frames import TRIALS, spread

Row = dict[str, Any]
CELL = ("trial", "rollouts_per_prompt", "prompts_per_batch", "seed")
MEASURED = ("rollouts", "tokens", "seconds", "gpu_hours", "compared_gpu_hours", "score", "score_standard_error")
POINT = ("attempt", "step", "counts", *MEASURED)
MOST_SHAPES = 1000  # of metrics that are remembered
_NO_NUMBERS = frozenset({"null", "true", "false", ""})  # what may stand between the commas of a JSON document
_OF_NUMBERS = b"0123456789.+-eE,"
_AROUND = b" \t\r\n:{}"  # the numbers of a JSON document, beside commas
_NO_BRACES = bytes(set(range(256)) - set(b"{}"))


class PointRows:
    """Every point of every trial and attempt, with the metrics of its update; read anew whenever it is gone through.

    Of a step that several attempts have reached, `counts` marks the newest one's; what an attempt did beyond the
    step where the present one began is void.
    """

    def __init__(self, session: Session, sweep: Sweep) -> None:
        """Find the columns, in the order of their first occurrence, from a row of each shape."""
        self._session, self._sweep, self._count = session, sweep, 0
        self._heads: dict[str, Row] = {}  # by trial
        trials = session.execute(select(Trial.name, Trial.attempt, Trial.id).where(Trial.sweep_id == sweep.id)).all()
        present = present_attempts(trials, totals_of(session, sweep.id))
        self._present = {each.name: present[each.id] for each in trials}
        columns: dict[str, None] = {}
        shapes: set[Hashable] = set()
        documents: Iterable[tuple[Any, Any]] = every_point(session, sweep.id, as_text=True, measured=False)
        for self._count, (trial, (further, metrics)) in enumerate(documents, start=1):
            name = trial["trial"]
            shape = (name, further and tuple(_further(further)), _shape(metrics)[0])
            if shape not in shapes:
                if len(shapes) == MOST_SHAPES:  # texts that differ from point to point
                    shapes.clear()
                shapes.add(shape)
                head = {"sweep": sweep.name, **{each: trial[each] for each in CELL}, **axis_cells(trial["axes"])}
                self._heads[name] = head
                columns.update(dict.fromkeys((*head, *POINT, *_further(further), *_metrics(metrics))))
        self.columns = tuple(columns)

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    def __iter__(self) -> Iterator[Row]:
        """Yield them by trial, step and attempt."""
        for trial, point, counts in self._marked():
            yield self._row({}, trial, point, counts=counts) | _metrics(point[-1])

    def lines(self, line_of: Callable[[Iterable[Any]], str]) -> Iterator[str]:
        """Yield each row as a line of text: numbers among the metrics are as they are stored, and mostly unread."""
        empty = dict.fromkeys(self.columns)
        heads = {trial: line_of(head.values()).rstrip() for trial, head in self._heads.items()}
        known: dict[Hashable, tuple[tuple[str, ...], bool]] = {}  # by trial and shape: names, and whether it has all
        for trial, point, counts in self._marked():
            shape, between = _shape(point[-1])
            key = (trial["trial"], shape)
            if key not in known:
                if len(known) == MOST_SHAPES:
                    known.clear()
                names = tuple(_metrics(point[-1]))
                known[key] = names, (*self._heads[trial["trial"]], *POINT, *names) == self.columns
            names, whole = known[key]
            numbers = between.translate(None, _AROUND)
            if whole and len(names) == numbers.count(b",") + 1 and _all_numbers(numbers):  # nearly all are
                attempt, step, *measured, _, _ = point
                cells = ["" if cell is None else str(cell) for cell in (attempt, step, counts, *measured)]
                yield f"{heads[trial['trial']]},{','.join(cells)},{numbers.decode()}\n"
            else:
                yield line_of(self._cells(empty.copy(), trial, point, counts, names, numbers.decode().split(",")))

    def _cells(
        self, row: Row, trial: Mapping[str, Any], point: Sequence[Any], counts: bool, names: Sequence[str], numbers: Any
    ) -> Iterable[Any]:
        plain = len(names) == len(numbers) and _NO_NUMBERS.isdisjoint(numbers)
        self._row(row, trial, point, counts=counts)
        row.update(zip(names, numbers, strict=True) if plain else _metrics(point[-1]))
        return row.values()

    def _marked(self) -> Iterator[tuple[Mapping[str, Any], Sequence[Any], bool]]:
        """Yield each point with whether it counts."""
        points: Iterable[tuple[Any, Any]] = every_point(self._session, self._sweep.id, as_text=True)
        for (name, step), of_step in groupby(points, key=lambda each: (each[0]["trial"], each[1][1])):
            several = list(of_step)
            counted = counting(self._present[name], step, [point for _, point in several])
            for trial, point in several:
                yield trial, point, point is counted

    def _row(self, row: Row, trial: Mapping[str, Any], point: Sequence[Any], *, counts: bool) -> Row:
        """Fill in all but the metrics."""
        attempt, step, *measured, further, _ = point
        row.update(self._heads[trial["trial"]], attempt=attempt, step=step, counts=counts)
        row.update(zip(MEASURED, measured, strict=True))
        if further is not None:
            row.update(_further(further))
        return row


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under their columns; every row has at most those, and what it lacks is unknown."""

    columns: tuple[str, ...]
    rows: list[Row] | PointRows


def points(session: Session, sweep: Sweep) -> Table:
    """Return every point; there may be millions, and its rows are read while they are written."""
    rows = PointRows(session, sweep)
    return Table(rows.columns, rows)


def recorded(session: Session, sweep: Sweep) -> Table:
    """Return the curves as `rlplan replay` reads them: what counts of each trial, in the metric that the sweep uses.

    Two scores at the same GPU-hours cannot both be on a curve; the later one is taken.
    """
    picture = read_picture(session, sweep, datetime.now(UTC))
    axes = list(dict.fromkeys(name for trial in picture.trials for name, _ in trial.axes))
    rows = []
    for trial in picture.trials:
        cell = {
            "run": trial.name,
            "rollouts_per_prompt": trial.rollouts_per_prompt,
            "prompts_per_batch": trial.prompts_per_batch,
            "seed": trial.seed,
        }
        by_compute = {score.gpu_hours: score for score in trial.scores}
        rows += [cell | plain(ScoreData(score)) | dict(trial.axes) for score in by_compute.values()]
    columns = ("run", "rollouts_per_prompt", "prompts_per_batch", "seed", "gpu_hours", "score")
    return Table((*columns, "score_standard_error", "step", *axes), rows)


def trials(session: Session, sweep: Sweep) -> Table:
    """Return every trial as it stands."""
    picture = read_picture(session, sweep, datetime.now(UTC))
    further = (Trial.recipe, Trial.checkpoint_path, Trial.created_at, Trial.updated_at, Trial.failure_tail)
    stored = {
        number: {column.key: value for column, value in zip(further, values, strict=True)}
        for number, *values in session.execute(select(Trial.id, *further).where(Trial.sweep_id == sweep.id))
    }
    columns, found = spread(TRIALS, picture.trials)
    rows = [
        {"sweep": sweep.name, **row, **stored.get(trial.id, {})}
        for trial, row in zip(picture.trials, found, strict=True)
    ]
    return Table(("sweep", *columns, *(column.key for column in further)), rows)


def segments(session: Session, sweep: Sweep) -> Table:
    """Return every segment, with the GPU-hours reserved and charged."""
    return _of_trials(session, sweep, Segment, [getattr(Segment, each.name) for each in fields(SegmentRow)])


def decisions(session: Session, sweep: Sweep) -> Table:
    """Return every decision with what it saw."""
    names = ("trial", "number", "at", "action", "reason", "seen", "alternatives")
    found = every_decision(session, sweep.id)
    rows = [plain(each) | {"sweep": sweep.name, "at": each.at} for each in found]
    return Table(("sweep", *names), rows)


def fits(session: Session, sweep: Sweep) -> Table:
    """Return every fit of every trial's curve, each parameter with its interval."""
    columns = (
        Fit.made_at,
        Fit.model,
        Fit.verdict,
        Fit.upto_gpu_hours,
        Fit.target_gpu_hours,
        Fit.predicted_mean,
        Fit.predicted_low,
        Fit.predicted_high,
        Fit.level,
        Fit.probability_best,
        Fit.fit_milliseconds,
        Fit.parameters,
    )
    found = _of_trials(session, sweep, Fit, columns)
    rows = [row | dict(flattened(row.pop("parameters") or {})) for row in found.rows]
    return Table(_columns(rows) if rows else found.columns[:-1], rows)


TABLES: Mapping[str, Callable[[Session, Sweep], Table]] = {
    "points": points,
    "trials": trials,
    "segments": segments,
    "decisions": decisions,
    "fits": fits,
}


def _of_trials(
    session: Session, sweep: Sweep, kind: type[Segment | Fit], columns: Sequence[InstrumentedAttribute[Any]]
) -> Table:
    wanted = select(Trial.name, *columns).join(Trial, Trial.id == kind.trial_id).order_by(kind.id)
    names = ("sweep", "trial", *(column.key for column in columns))
    found = session.execute(wanted.where(Trial.sweep_id == sweep.id))
    return Table(names, [dict(zip(names, (sweep.name, *row), strict=True)) for row in found])


def _columns(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return the names that occur, in the order of their first occurrence."""
    return tuple(dict.fromkeys(name for row in rows for name in row))


def _further(document: str | None) -> Row:
    stored = json.loads(document) if document else {}
    return {f"further.{name}": value[0] for name, value in stored.items() if value}


def _metrics(document: str | None) -> Row:
    return {f"metrics.{name}": value for name, value in flattened(json.loads(document) if document else {})}


def _all_numbers(between: bytes) -> bool:
    """Whether a number, and nothing else, stands before, between and behind all commas."""
    return not (between.translate(None, _OF_NUMBERS) or b",," in between or between[:1] == b"," or between[-1:] == b",")


def _shape(document: str | None) -> tuple[Hashable, bytes]:
    """Return what documents with the same columns have in common, and what stands between the names, unread as JSON.

    To read millions of numbers and to write them again takes most of the time of an export. Names and texts alone are
    in quotation marks, and documents with other texts have other shapes.
    """
    if document is None or "\\" in document or "[" in document:
        return tuple(_metrics(document)), b""
    parts = document.split('"')
    between = "".join(parts[::2]).encode()
    return (between.translate(None, _NO_BRACES), *parts[1::2]), between
