"""Reads the trials of a sweep: where each stands, what it was granted, its scores and what its curve foretells."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Select, case, func, select
from sqlalchemy.orm import Session

from planner.metrics import Metric
from planner.store.schema import Candidate, Fit, Segment, SegmentOutcome, Trial
from rlplan.reading.points import Memory, reached, remember_scores
from rlplan.reading.sweep_picture import Forecast, TrialRow


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


def granted(session: Session, sweep_id: int) -> Granted:
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
    for trial, attempt, outcome, from_step, to_step, charged, reserved, since in session.execute(wanted):
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
    session: Session, sweep_id: int, grants: Granted, memory: Memory, metric: Metric
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
    rows = session.execute(wanted).all()
    starts = {row.id: grants.start_of(row.id, row.attempt) for row in rows}
    seen = reached(session, sweep_id)
    remember_scores(session, {row.id: (row.attempt, starts[row.id]) for row in rows}, seen, memory, metric)
    forecasts = _forecasts(session, sweep_id)
    trials = tuple(
        TrialRow(
            **{column.key: getattr(row, column.key) for column in columns},
            pilot_steps=row.pilot_steps,
            step=max(starts[row.id], *(last for attempt, last, _ in seen.get(row.id, ()) if attempt == row.attempt), 0),
            scores=memory[row.id][1] if row.id in memory else (),
            forecast=forecasts.get(row.id),
        )
        for row in rows
    )
    return trials, max((row.updated_at for row in rows), default=None)


def _forecasts(session: Session, sweep_id: int) -> dict[int, Forecast]:
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
    rows = session.execute(select(Fit.trial_id, *columns).where(Fit.id.in_(newest)))
    return {row[0]: Forecast(*row[1:]) for row in rows}
