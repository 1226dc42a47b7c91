"""The tables of a sweep as rows: what it measured, was granted, decided, believed and concluded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from planner.layering import flattened
from planner.store.schema import Fit, Segment, Sweep, Trial
from rlplan.reading.decisions import decisions as every_decision
from rlplan.reading.points import every_point
from rlplan.reading.row_choice import axis_cells, axis_columns
from rlplan.reading.sweep_data import TRIAL_COLUMNS, score_row, trial_row
from rlplan.reading.sweep_reading import read_picture

Row = dict[str, Any]
CELL = ("trial", "rollouts_per_prompt", "prompts_per_batch", "seed")
MEASURED = ("rollouts", "tokens", "seconds", "gpu_hours", "compared_gpu_hours", "score", "score_standard_error")


class PointRows:
    """Every point of every trial and attempt, with the metrics of its update; read anew whenever it is gone through.

    Of a step that several attempts have reached, `counts` marks the newest one's.
    """

    def __init__(self, session: Session, sweep: Sweep) -> None:
        """Find the columns, in the order of their first occurrence, from a row of each shape."""
        self._session, self._sweep, self._count = session, sweep, 0
        columns: dict[str, None] = {}
        shapes = set()
        for trial, point in every_point(session, sweep.id):
            self._count += 1
            further = point.further_scores or {}
            shape = (trial["trial"], *filter(further.get, further), _shape(point.metrics or {}))
            if shape not in shapes:
                shapes.add(shape)
                columns.update(dict.fromkeys(self._row(trial, point)))
        self.columns = tuple(columns)

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    def __iter__(self) -> Iterator[Row]:
        """Yield them by trial, step and attempt, each when the next one has told whether it counts."""
        before: Row | None = None
        for trial, point in every_point(self._session, self._sweep.id):
            row = self._row(trial, point)
            if before is not None:
                before["counts"] = (before["trial"], before["step"]) != (row["trial"], row["step"])
                yield before
            before = row
        if before is not None:
            yield before

    def _row(self, trial: Mapping[str, Any], point: Any) -> Row:
        row = {"sweep": self._sweep.name, **{name: trial[name] for name in CELL}, **axis_cells(trial["axes"])}
        row["attempt"], row["step"], *measured, further, metrics = point
        row["counts"] = True
        row |= zip(MEASURED, measured, strict=True)
        row |= {f"further.{name}": value[0] for name, value in (further or {}).items() if value}
        row |= {f"metrics.{name}": value for name, value in flattened(metrics or {})}
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
    seen = read_picture(session, sweep, datetime.now(UTC))
    axes = list(dict.fromkeys(name for trial in seen.trials for name, _ in trial.axes))
    rows = []
    for trial in seen.trials:
        cell = {
            "run": trial.name,
            "rollouts_per_prompt": trial.rollouts_per_prompt,
            "prompts_per_batch": trial.prompts_per_batch,
            "seed": trial.seed,
        }
        by_compute = {score.gpu_hours: score for score in trial.scores}
        rows += [cell | score_row(score) | dict(trial.axes) for score in by_compute.values()]
    plain = ("run", "rollouts_per_prompt", "prompts_per_batch", "seed", "gpu_hours", "score")
    return Table((*plain, "score_standard_error", "step", *axes), rows)


def trials(session: Session, sweep: Sweep) -> Table:
    """Return every trial as it stands."""
    seen = read_picture(session, sweep, datetime.now(UTC))
    further = (Trial.recipe, Trial.checkpoint_path, Trial.created_at, Trial.updated_at, Trial.failure_tail)
    stored = {
        number: {column.key: value for column, value in zip(further, values, strict=True)}
        for number, *values in session.execute(select(Trial.id, *further).where(Trial.sweep_id == sweep.id))
    }
    rows = [
        {"sweep": sweep.name, **trial_row(trial), **axis_cells(trial.axes), **stored.get(trial.id, {})}
        for trial in seen.trials
    ]
    axes = axis_columns(trial.axes for trial in seen.trials)
    return Table(("sweep", *TRIAL_COLUMNS, *axes, *(column.key for column in further)), rows)


def segments(session: Session, sweep: Sweep) -> Table:
    """Return every segment, with the GPU-hours reserved and charged."""
    columns = (
        Segment.number,
        Segment.attempt,
        Segment.from_step,
        Segment.to_step,
        Segment.reserved_gpu_hours,
        Segment.charged_gpu_hours,
        Segment.worker,
        Segment.started_at,
        Segment.ended_at,
        Segment.outcome,
        Segment.start_up_gpu_hours,
    )
    return _of_trials(session, sweep, Segment, columns)


def decisions(session: Session, sweep: Sweep) -> Table:
    """Return every decision with what it saw."""
    found = [each.document() | {"at": each.at} for each in every_decision(session, sweep.id)]
    names = ("trial", "number", "at", "action", "reason", "seen", "alternatives")
    rows = [{"sweep": sweep.name, **{name: each[name] for name in names}} for each in found]
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


def _shape(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the names in a document, and in those within it; documents of one shape have the same columns."""
    return tuple((name, _shape(value)) if value.__class__ is dict else name for name, value in document.items())
