"""The tables of a sweep as rows: what it measured, was granted, decided, believed and concluded."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from planner.layering import flattened
from planner.store.curves import counting, every_point, present_attempts
from planner.store.schema import Fit, Sweep, Trial
from planner.store.totals import totals_of
from rlplan.reading.decisions import decisions_of
from rlplan.reading.row_choice import axis_cells
from rlplan.reading.sweep_picture import ScoreData, SegmentRow
from rlplan.reading.sweep_reading import read_picture, segments_of
from rlplan.wording.documents import plain
from rlplan.wording.frames import TRIALS, spread

Row = dict[str, Any]
CELL = ("trial", "rollouts_per_prompt", "prompts_per_batch", "seed")
MEASURED = ("rollouts", "tokens", "seconds", "gpu_hours", "compared_gpu_hours", "score", "score_standard_error")
POINT = ("attempt", "step", "counts", *MEASURED)


class PointRows:
    """Every point of every trial and attempt, with the metrics of its update; read anew whenever it is gone through.

    Of a step that several attempts have reached, `counts` marks the newest one's; what an attempt did beyond the
    step where the present one began is void.
    """

    def __init__(self, session: Session, sweep: Sweep) -> None:
        """Find the columns, in the order of their first occurrence."""
        self._session, self._sweep, self._count = session, sweep, 0
        trials = session.execute(select(Trial.name, Trial.attempt, Trial.id).where(Trial.sweep_id == sweep.id)).all()
        present = present_attempts(trials, totals_of(session, sweep.id))
        self._present = {each.name: present[each.id] for each in trials}
        columns: dict[str, None] = {}
        for trial, documents in self._by_trial(measured=False):
            columns |= dict.fromkeys((*self._head(trial), *POINT))
            for _, (further, metrics) in documents:
                self._count += 1
                columns |= _further(further) | _metrics(metrics)
        self.columns = tuple(columns)

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    def __iter__(self) -> Iterator[Row]:
        """Yield them by trial, step and attempt."""
        for trial, points in self._by_trial():
            head, present = self._head(trial), self._present[trial["trial"]]
            for step, of_step in groupby((point for _, point in points), key=attrgetter("step")):
                several = list(of_step)
                counted = counting(present, step, several)
                for point in several:
                    attempt, _, *measured, further, metrics = point
                    cells = zip(POINT, (attempt, step, point is counted, *measured), strict=True)
                    yield head | dict(cells) | _further(further) | _metrics(metrics)

    def _by_trial(self, *, measured: bool = True) -> Iterator[tuple[Mapping[str, Any], Iterator[tuple[Any, Any]]]]:
        points: Iterable[tuple[Any, Any]] = every_point(self._session, self._sweep.id, measured=measured)
        return groupby(points, key=itemgetter(0))

    def _head(self, trial: Mapping[str, Any]) -> Row:
        return {"sweep": self._sweep.name, **{each: trial[each] for each in CELL}, **axis_cells(trial["axes"])}


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
    names = [each.name for each in fields(SegmentRow) if each.repr]
    found = segments_of(session, Trial.sweep_id == sweep.id).values()
    rows = [{"sweep": sweep.name, **{name: getattr(each, name) for name in names}} for each in found]
    return Table(("sweep", *names), rows)


def decisions(session: Session, sweep: Sweep) -> Table:
    """Return every decision with what it saw."""
    names = ("trial", "number", "at", "action", "reason", "seen", "alternatives")
    rows = [plain(each) | {"sweep": sweep.name, "at": each.at} for each in decisions_of(session, sweep.id)]
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
    wanted = select(Trial.name, *columns).join(Trial, Trial.id == Fit.trial_id).order_by(Fit.id)
    names = ("sweep", "trial", *(column.key for column in columns))
    found = [(sweep.name, *row) for row in session.execute(wanted.where(Trial.sweep_id == sweep.id))]
    rows = [dict(zip(names[:-1], row, strict=False)) | dict(flattened(row[-1] or {})) for row in found]
    return Table(_columns(rows) or names[:-1], rows)


TABLES: Mapping[str, Callable[[Session, Sweep], Table]] = {
    "points": points,
    "trials": trials,
    "segments": segments,
    "decisions": decisions,
    "fits": fits,
}


def _columns(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return the names that occur, in the order of their first occurrence."""
    return tuple(dict.fromkeys(name for row in rows for name in row))


def _further(stored: Mapping[str, Any] | None) -> Row:
    return {f"further.{name}": value[0] for name, value in (stored or {}).items() if value}


def _metrics(stored: Mapping[str, Any] | None) -> Row:
    row: Row = {}
    for name, value in (stored or {}).items():
        if value.__class__ is dict:
            row |= flattened(value, f"metrics.{name}.")
        else:  # most are: `flattened` takes twice as long for them, and there may be millions
            row[f"metrics.{name}"] = value
    return row
