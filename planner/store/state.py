"""Reads how a sweep stands: everything that a driver needs to go on after an interruption, in a few queries."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from planner.metrics import Metric
from planner.store.curves import Trained, committed_curves, present_attempts
from planner.store.finals import final_of, plan_of_final
from planner.store.schema import Charge, Decision, Plan, Segment, SegmentOutcome, Sweep, Trial
from planner.store.sweeps import Totals, sweep_named, totals_of
from planner.view import ScorePoint

RETRY = "retry"  # the decision that a failed trial is tried again; it holds how many of its failures count


@dataclass(frozen=True, slots=True)
class SweepSnapshot:
    """The rows of one sweep: its trials in the order of their planning, and what each has."""

    sweep: Sweep
    plan: Plan
    trials: list[Trial]
    segments: Mapping[int, list[Segment]]  # by trial, oldest first
    scores: Mapping[int, list[ScorePoint]]  # by trial and then by step, as far as they are committed
    trained: Mapping[int, Trained]  # by trial that has a committed point
    charged_to_workers: Mapping[str, float]  # GPU-hours, in segments and beside them
    totals: Totals
    failures: Mapping[int, int]  # by trial: those that count against its retries, as its last driver had them

    @property
    def spent_gpu_hours(self) -> float:
        """GPU-hours that are gone, whatever for."""
        return self.totals.spent

    def committed_step(self, trial: int) -> int:
        """Return the step up to which a trial is saved."""
        return self.totals.committed_step.get(trial, 0)


def sweep_snapshot(session: Session, sweep: str) -> SweepSnapshot:
    """Return how a sweep stands; a final run's plan is that run alone."""
    row = sweep_named(session, sweep)
    plan = session.scalars(select(Plan).where(Plan.id == row.plan_id).options(selectinload(Plan.candidates))).one()
    trials = list(session.scalars(select(Trial).where(Trial.sweep_id == row.id).order_by(Trial.id)))
    if (final := final_of(session, row.id)) is not None:
        plan = plan_of_final(plan, final, trials[0])
    of_sweep = select(Trial.id).where(Trial.sweep_id == row.id).scalar_subquery()
    segments: dict[int, list[Segment]] = defaultdict(list)
    charged: dict[str, float] = defaultdict(float)
    for segment in session.scalars(select(Segment).where(Segment.trial_id.in_(of_sweep)).order_by(Segment.id)):
        segments[segment.trial_id].append(segment)
        if segment.worker is not None:
            charged[segment.worker] += segment.charged_gpu_hours or 0.0
    for worker, gpu_hours in session.execute(
        select(Charge.worker, func.sum(Charge.gpu_hours)).where(Charge.sweep_id == row.id).group_by(Charge.worker)
    ):
        charged[worker] += gpu_hours
    totals, metric = totals_of(session, row.id), Metric.of_sweep(row.config)
    scores, trained = committed_curves(session, present_attempts(trials, totals), totals.committed_step, metric)
    failures = _failures(session, row.id, segments)
    return SweepSnapshot(row, plan, trials, segments, scores, trained, charged, totals, failures)


def _failures(session: Session, sweep_id: int, segments: Mapping[int, list[Segment]]) -> dict[int, int]:
    """Read the last retry of each trial since its last committed segment: an interrupted driver is no failure."""
    query = select(Decision).where(Decision.sweep_id == sweep_id, Decision.action == RETRY).order_by(Decision.number)
    last = {decision.trial_id: decision for decision in session.scalars(query) if decision.trial_id is not None}
    failures = {}
    for trial, retry in last.items():
        committed = [segment for segment in segments.get(trial, []) if segment.outcome is SegmentOutcome.COMMITTED]
        if not any(segment.ended_at is not None and segment.ended_at >= retry.at for segment in committed):
            failures[trial] = int(retry.seen.get("failures", 0))
    return failures


def failures_since_success(segments: list[Segment]) -> int:
    """Count the segments that failed or were lost since the last one that was committed."""
    count = 0
    for segment in reversed(segments):
        if segment.outcome is SegmentOutcome.COMMITTED:
            break
        count += segment.outcome in (SegmentOutcome.FAILED, SegmentOutcome.LOST)
    return count
