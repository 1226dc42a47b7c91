"""Reads how a sweep stands: everything that a driver needs to go on after an interruption, in a few queries."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, null, select
from sqlalchemy.orm import Session, aliased, selectinload

from planner.metrics import Metric
from planner.store.finals import final_of, plan_of_final
from planner.store.schema import Charge, Decision, Plan, Point, Segment, SegmentOutcome, Sweep, Trial
from planner.store.sweeps import sweep_named
from planner.view import Seen

RETRY = "retry"  # the decision that a failed trial is tried again; it holds how many of its failures count


@dataclass(frozen=True, slots=True)
class Trained:
    """How far a trial's points go, and what its own training took: at its first point, and at its last."""

    first_gpu_hours: float
    last_step: int
    last_gpu_hours: float


@dataclass(frozen=True, slots=True)
class SweepState:
    """The rows of one sweep: its trials in the order of their planning, and what each has."""

    sweep: Sweep
    plan: Plan
    trials: list[Trial]
    segments: Mapping[int, list[Segment]]  # by trial, oldest first
    scores: Mapping[int, list[Seen]]  # by trial and then by step, the newest attempt's
    trained: Mapping[int, Trained]  # by trial that has a point
    charged_to_workers: Mapping[str, float]  # GPU-hours, in segments and beside them
    spent_gpu_hours: float
    failures: Mapping[int, int]  # by trial: those that count against its retries, as its last driver had them


def sweep_state(session: Session, sweep: str) -> SweepState:
    """Return how a sweep stands; a final run's plan is that run alone."""
    row = sweep_named(session, sweep)
    plan = session.scalars(select(Plan).where(Plan.id == row.plan_id).options(selectinload(Plan.candidates))).one()
    trials = list(session.scalars(select(Trial).where(Trial.sweep_id == row.id).order_by(Trial.id)))
    if (final := final_of(session, row.id)) is not None:
        plan = plan_of_final(plan, final, trials[0])
    of_sweep = select(Trial.id).where(Trial.sweep_id == row.id).scalar_subquery()
    segments: dict[int, list[Segment]] = defaultdict(list)
    charged: dict[str, float] = defaultdict(float)
    spent = 0.0
    for segment in session.scalars(select(Segment).where(Segment.trial_id.in_(of_sweep)).order_by(Segment.id)):
        segments[segment.trial_id].append(segment)
        spent += segment.charged_gpu_hours or 0.0
        if segment.worker is not None:
            charged[segment.worker] += segment.charged_gpu_hours or 0.0
    for worker, gpu_hours in session.execute(
        select(Charge.worker, func.sum(Charge.gpu_hours)).where(Charge.sweep_id == row.id).group_by(Charge.worker)
    ):
        charged[worker] += gpu_hours
        spent += gpu_hours
    scores, trained = _curves(session, row.id, Metric.of_sweep(row.config))
    failures = _failures(session, row.id, segments)
    return SweepState(row, plan, trials, segments, scores, trained, charged, spent, failures)


def _failures(session: Session, sweep_id: int, segments: Mapping[int, list[Segment]]) -> dict[int, int]:
    """Read the last retry of each trial since its last committed segment: an interrupted driver is no failure."""
    wanted = select(Decision).where(Decision.sweep_id == sweep_id, Decision.action == RETRY).order_by(Decision.number)
    last = {each.trial_id: each for each in session.scalars(wanted) if each.trial_id is not None}
    found = {}
    for trial, retry in last.items():
        committed = [each for each in segments.get(trial, []) if each.outcome is SegmentOutcome.COMMITTED]
        if not any(each.ended_at is not None and each.ended_at >= retry.at for each in committed):
            found[trial] = int(retry.seen.get("failures", 0))
    return found


def _curves(session: Session, sweep_id: int, metric: Metric) -> tuple[dict[int, list[Seen]], dict[int, Trained]]:
    """Read every step of every trial as its newest attempt measured it."""
    other = aliased(Point)
    newest = (
        select(func.max(other.attempt))
        .where(other.trial_id == Point.trial_id, other.optimizer_step == Point.optimizer_step)
        .scalar_subquery()
    )
    columns = (
        Point.trial_id,
        Point.optimizer_step,
        Point.gpu_hours,
        Point.compared_gpu_hours,
        Point.score,
        Point.score_standard_error,
        null() if metric.kind == "mean" else Point.further_scores,
    )
    wanted = (
        select(*columns)
        .join(Trial, Trial.id == Point.trial_id)
        .where(Trial.sweep_id == sweep_id, Point.attempt == newest)
        .order_by(Point.trial_id, Point.optimizer_step)
    )
    scores: dict[int, list[Seen]] = defaultdict(list)
    trained: dict[int, Trained] = {}
    for trial, step, gpu_hours, compared, score, error, further in session.execute(wanted):
        first = trained[trial].first_gpu_hours if trial in trained else gpu_hours
        trained[trial] = Trained(first, step, gpu_hours)
        measured = metric.of(score, error, further)
        if measured is not None:
            where = gpu_hours if compared is None else compared
            scores[trial].append(Seen(step, where, *measured))
    return scores, trained


def newest_points(session: Session, trial_id: int, *, scored: bool = False) -> list[Point]:
    """Return every step of a trial, or those with a score, as its newest attempt measured it."""
    wanted = select(Point).where(Point.trial_id == trial_id).order_by(Point.optimizer_step, Point.attempt)
    if scored:
        wanted = wanted.where(Point.score.is_not(None))
    return list({point.optimizer_step: point for point in session.scalars(wanted)}.values())


def committed_step(segments: list[Segment]) -> int:
    """Return the step up to which a trial's segments are committed."""
    return max((each.to_step for each in segments if each.outcome is SegmentOutcome.COMMITTED), default=0)


def failures_since_success(segments: list[Segment]) -> int:
    """Count the segments that failed or were lost since the last one that was committed."""
    count = 0
    for segment in reversed(segments):
        if segment.outcome is SegmentOutcome.COMMITTED:
            break
        count += segment.outcome in (SegmentOutcome.FAILED, SegmentOutcome.LOST)
    return count
