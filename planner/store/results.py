"""Stores what trials bring, segments with their GPU-hours and points, and what is concluded from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Insert, Table, delete, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import Session

from budgets.errors import InputError, NotFoundError, StoreError
from planner.store.base import values_of
from planner.store.database import RANKED_ALLOCATIONS
from planner.store.schema import Decision, Point, Ranking, Recommendation, Segment, SegmentOutcome
from planner.store.sweeps import plan_named, sweep_named, trial_with
from planner.view import Axes

WHOLE = "step"  # what a cost record calls the seconds of a whole step, without validations and saving


@dataclass(frozen=True, kw_only=True)
class RankedRow:
    """One row of a ranked list, as it is stored under a recommendation and read again."""

    rank: int
    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    learning_rate: float
    recipe: str
    expected_score: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    probability_best: float | None = None
    gpu_hours_spent: float
    gpu_hours_to_target: float
    status: str
    axes: Axes = ()


def open_segment(session: Session, trial_id: int, segment: Segment, started_at: datetime) -> int:
    """Store a segment with its reservation, in the trial's present attempt, and return its id."""
    segment.trial_id, segment.attempt = trial_id, trial_with(session, trial_id).attempt
    segment.started_at, segment.outcome = started_at, SegmentOutcome.RESERVED
    session.add(segment)
    session.flush()
    return segment.id


def settle_segment(
    session: Session,
    segment_id: int,
    outcome: SegmentOutcome,
    charged_gpu_hours: float,
    ended_at: datetime,
    checkpoint_path: str | None = None,
    reached_step: int | None = None,
    worker: str | None = None,
    start_up_gpu_hours: float | None = None,
) -> None:
    """End a segment: charge its trial, and note the checkpoint, step, worker and start-up where they are known.

    Settling again with the same outcome and charge does nothing, so that a report may be sent twice; with others it is
    refused, since GPU-hours would be lost or counted twice.
    """
    segment = _unsettled(session, segment_id, outcome, charged_gpu_hours)
    if segment is None:
        return
    segment.outcome, segment.charged_gpu_hours, segment.ended_at = outcome, charged_gpu_hours, ended_at
    if reached_step is not None:
        segment.to_step = reached_step
    if worker is not None:
        segment.worker = worker
    segment.start_up_gpu_hours = start_up_gpu_hours
    trial = trial_with(session, segment.trial_id)
    trial.gpu_hours_spent += charged_gpu_hours
    trial.updated_at = ended_at
    if checkpoint_path is not None:
        trial.checkpoint_path = checkpoint_path


def _unsettled(session: Session, segment_id: int, outcome: SegmentOutcome, charged_gpu_hours: float) -> Segment | None:
    """Return a segment that can be settled so; None where it was already."""
    if outcome is SegmentOutcome.RESERVED:
        raise InputError("a segment cannot be settled as reserved; allowed are committed, failed, lost, released")
    if not (math.isfinite(charged_gpu_hours) and charged_gpu_hours >= 0):
        raise InputError(f"a segment cannot be charged {charged_gpu_hours} GPU-hours; give a number from 0 up")
    segment = session.get(Segment, segment_id)
    if segment is None:
        raise NotFoundError(f"there is no segment with id {segment_id}")
    if segment.outcome is SegmentOutcome.RESERVED:
        return segment
    if (segment.outcome, segment.charged_gpu_hours) == (outcome, charged_gpu_hours):
        return None
    raise StoreError(
        f"segment {segment_id} was settled already ({segment.outcome}, {segment.charged_gpu_hours} GPU-hours) and "
        f"cannot be settled again as {outcome}, {charged_gpu_hours} GPU-hours"
    )


def add_points(session: Session, points: Sequence[Point]) -> int:
    """Store points and return how many were new; of a point sent twice the first is kept."""
    if not points:
        return 0
    connection = session.connection()
    table = cast(Table, Point.__table__)
    if connection.dialect.name == "postgresql":  # the ORM has no common statement for both databases
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 (drags in asyncio, a tenth of what `propose` takes)

        unless_there: Insert = postgresql.insert(table).on_conflict_do_nothing()
    else:
        unless_there = sqlite.insert(table).on_conflict_do_nothing()
    insert = unless_there.execution_options(preserve_rowcount=True)
    rows = [values_of(point) for point in points]
    for row in rows:  # SQLite has no NaN, and on PostgreSQL it would pass for the highest score there is
        for name in ("score", "score_standard_error"):
            if row[name] is not None and not math.isfinite(row[name]):
                row[name] = None
    return connection.execute(insert, rows).rowcount


def record_decision(
    session: Session,
    sweep: str,
    at: datetime,
    action: str,
    reason: str,
    *,
    trial_id: int | None = None,
    seen: dict[str, Any] | None = None,
    alternatives: Sequence[Any] = (),
) -> int:
    """Store a decision of a sweep with the numbers that it rested on, and return its number, counted from 1."""
    sweep_id = sweep_named(session, sweep).id
    number = 1 + (session.scalar(select(func.max(Decision.number)).where(Decision.sweep_id == sweep_id)) or 0)
    of = {"sweep_id": sweep_id, "number": number, "trial_id": trial_id}
    row = Decision(**of, at=at, action=action, reason=reason, seen=seen or {}, alternatives=list(alternatives))
    session.add(row)
    return number


SO_FAR = "so_far"  # in the details of a recommendation that a sweep stored while it was running


def save_recommendation(
    session: Session, sweep: str, recommendation: Recommendation, rankings: Sequence[RankedRow]
) -> int:
    """Store a recommendation with the whole ranked list it rests on, in place of one so far, and return its id."""
    sweep_id = sweep_named(session, sweep).id
    query = select(Recommendation.id, Recommendation.details).where(Recommendation.sweep_id == sweep_id)
    before = session.execute(query.order_by(Recommendation.id.desc()).limit(1)).first()
    recommendation.sweep_id = sweep_id
    recommendation.rankings = [Ranking(**vars(ranking)) for ranking in rankings]
    session.add(recommendation)
    session.flush()  # before the other goes: the new one's id shows that there is something new
    if before is not None and before.details.get(SO_FAR):
        session.execute(delete(Recommendation).where(Recommendation.id == before.id))
    return recommendation.id


def ranked_allocations(session: Session, sweep: str | None = None, plan: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of the view, of one sweep or plan or of all, the newest first and then by rank."""
    query = select(RANKED_ALLOCATIONS)
    if sweep is not None:
        sweep_named(session, sweep)
        query = query.where(RANKED_ALLOCATIONS.c.sweep == sweep)
    if plan is not None:
        plan_named(session, plan)
        query = query.where(RANKED_ALLOCATIONS.c.plan == plan)
    return [dict(row) for row in session.execute(query).mappings()]
