"""Reads the trials of a sweep: where each stands, what it was granted, its scores and what its curve foretells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import Select, Table, case, func, null, select
from sqlalchemy.orm import Session

from planner.metrics import Metric
from planner.store.schema import Candidate, Fit, Point, Segment, SegmentOutcome, Trial
from rlplan.reading.damage import Damage
from rlplan.reading.sweep_picture import Forecast, Score, TrialRow

Reached = tuple[tuple[int, ...], ...]
# What was read before, each with the mark that tells whether there is more: scores by trial, other rows by their name.
Memory = dict[int | str, tuple[object, tuple[Any, ...]]]


@dataclass(slots=True)
class Granted:
    """What the segments of a sweep add up to."""

    charged: dict[str, float] = field(default_factory=dict)  # GPU-hours by outcome
    reserved: float = 0.0
    open_since: list[datetime] = field(default_factory=list)  # by open segment
    committed_step: dict[int, int] = field(default_factory=dict)  # by trial
    first_step: dict[tuple[int, int], int] = field(default_factory=dict)  # by trial and attempt

    def start_of(self, trial: int, attempt: int) -> int:
        """Return the step at which an attempt began, or will begin."""
        return self.first_step.get((trial, attempt), self.committed_step.get(trial, 0))


def granted(session: Session, sweep_id: int, damage: Damage) -> Granted:
    """Add up the segments of a sweep."""
    still_open = Segment.outcome == SegmentOutcome.RESERVED
    wanted = (
        select(
            Segment.trial_id,
            Segment.attempt,
            Segment.outcome,
            func.min(Segment.from_step),
            func.max(Segment.to_step),
            func.sum(Segment.charged_gpu_hours),
            func.sum(case((still_open, Segment.reserved_gpu_hours), else_=0.0)),
            func.min(case((still_open, Segment.started_at))),
        )
        .where(Segment.trial_id.in_(_of(sweep_id)))
        .group_by(Segment.trial_id, Segment.attempt, Segment.outcome)
    )
    total = Granted()
    rows = damage.rows(session, wanted, "what was granted to trial and attempt", Segment.trial_id, Segment.attempt)
    for trial, attempt, outcome, from_step, to_step, charged, reserved, since in rows:
        total.first_step[trial, attempt] = min(total.first_step.get((trial, attempt), from_step), from_step)
        total.reserved += reserved
        if outcome is SegmentOutcome.RESERVED:
            total.open_since.append(since)
            continue
        total.charged[outcome] = total.charged.get(outcome, 0.0) + (charged or 0.0)
        if outcome is SegmentOutcome.COMMITTED:
            total.committed_step[trial] = max(total.committed_step.get(trial, 0), to_step)
    return total


def _of(sweep_id: int) -> Select[int]:
    return select(Trial.id).where(Trial.sweep_id == sweep_id)


def trial_rows(
    session: Session, sweep_id: int, grants: Granted, memory: Memory, metric: Metric, damage: Damage
) -> tuple[tuple[TrialRow, ...], datetime | None]:
    """Return the trials in the order of their planning, and when the last of them changed."""
    columns = (
        Trial.id,
        Trial.name,
        Trial.rollouts_per_prompt,
        Trial.prompts_per_batch,
        Trial.learning_rate,
        Trial.seed,
        Trial.state,
        Trial.attempt,
        Trial.gpu_hours_spent,
        Trial.failure_class,
        Trial.failure_tail,
        Trial.axes,
    )
    wanted = (
        select(*columns, Candidate.pilot_steps, Trial.updated_at)
        .outerjoin(Candidate, Candidate.id == Trial.candidate_id)
        .where(Trial.sweep_id == sweep_id)
        .order_by(Trial.id)
    )
    rows = damage.rows(session, wanted, "trial", Trial.id)
    starts = {row.id: grants.start_of(row.id, row.attempt) for row in rows}
    reached = _reached(session, sweep_id)
    _scores(session, {row.id: (row.attempt, starts[row.id]) for row in rows}, reached, memory, metric, damage)
    forecasts = _forecasts(session, sweep_id, damage)
    trials = tuple(
        TrialRow(
            **{column.key: getattr(row, column.key) for column in columns},
            pilot_steps=row.pilot_steps,
            step=max(
                starts[row.id], *(last for attempt, last, _ in reached.get(row.id, ()) if attempt == row.attempt), 0
            ),
            scores=memory[row.id][1] if row.id in memory else (),
            forecast=forecasts.get(row.id),
        )
        for row in rows
    )
    return trials, max((row.updated_at for row in rows), default=None)


def _reached(session: Session, sweep_id: int) -> dict[int, Reached]:
    """Return, by trial, how far each attempt has reported: attempt, last step, number of points."""
    wanted = (
        select(Point.trial_id, Point.attempt, func.max(Point.optimizer_step), func.count())
        .where(Point.trial_id.in_(_of(sweep_id)))
        .group_by(Point.trial_id, Point.attempt)
        .order_by(Point.trial_id, Point.attempt)
    )
    reached: dict[int, Reached] = {}
    for trial, *attempt in session.execute(wanted):
        reached[trial] = (*reached.get(trial, ()), tuple(attempt))
    return reached


def _scores(
    session: Session,
    attempts: Mapping[int, tuple[int, int]],
    reached: Mapping[int, Reached],
    memory: Memory,
    metric: Metric,
    damage: Damage,
) -> None:
    """Bring the memory up to date: each trial's scores by step, of every step the newest attempt's.

    What attempts before the present one did beyond the step where it began is void. Points are never changed, so a
    trial whose attempts have reached what they had reached before is not read again.
    """
    marks = {trial: (*attempts[trial], seen) for trial, seen in reached.items() if trial in attempts}
    changed = [trial for trial, mark in marks.items() if memory.get(trial, (None,))[0] != mark]
    point = cast(Table, Point.__table__).c  # not the mapped class: many rows come twice as fast without it
    wanted = (
        select(
            point.trial_id,
            point.attempt,
            point.optimizer_step,
            point.gpu_hours,
            point.score,
            point.score_standard_error,
            null() if metric.kind == "mean" else point.further_scores,
        )
        .where(point.trial_id.in_(changed), point.score.is_not(None))
        .order_by(point.trial_id, point.optimizer_step, point.attempt)
    )
    memory |= {trial: (marks[trial], ()) for trial in changed}
    keys = (point.trial_id, point.optimizer_step, point.attempt)
    before = len(damage.found)
    found = damage.rows(session.connection(), wanted, "the point of trial, step, attempt", *keys) if changed else ()
    if len(damage.found) > before:
        memory |= dict.fromkeys(changed, (None, ()))  # read again each time, so that it is said each time
    for trial, rows in groupby(found, key=itemgetter(0)):
        newest, start = attempts[trial]
        by_step = {
            step: Score(step, gpu_hours, *measured)
            for _, attempt, step, gpu_hours, *stored in rows
            if (attempt == newest or step <= start) and (measured := metric.of(*stored)) is not None
        }
        memory[trial] = (memory[trial][0], tuple(by_step.values()))


def _forecasts(session: Session, sweep_id: int, damage: Damage) -> dict[int, Forecast]:
    newest = select(func.max(Fit.id)).where(Fit.trial_id.in_(_of(sweep_id))).group_by(Fit.trial_id)
    columns = (
        Fit.predicted_mean,
        Fit.predicted_low,
        Fit.predicted_high,
        Fit.level,
        Fit.verdict,
        Fit.target_gpu_hours,
        Fit.probability_best,
    )
    rows = damage.rows(session, select(Fit.trial_id, *columns).where(Fit.id.in_(newest)), "fit", Fit.id)
    return {row[0]: Forecast(*row[1:]) for row in rows}
