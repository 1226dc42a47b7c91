"""A cheap key of everything that a page of a sweep shows."""

from datetime import datetime
from functools import cache

from sqlalchemy import BindParameter, Select, bindparam, case, func, select, true
from sqlalchemy.orm import Session

from planner.store.finals import ForecastOfFinal
from planner.store.schema import (
    Charge,
    Decision,
    Fit,
    Point,
    Recommendation,
    Request,
    Segment,
    SegmentOutcome,
    Sweep,
    Transition,
    Trial,
)
from runner.processes import has_driver


def mark(session: Session, sweep_id: int, *, now: datetime | None = None) -> str:
    """Return a text that changes whenever a page of the sweep would show something new.

    Heartbeats are not in it, but that they have stopped is. It may change with another sweep of the database too: the
    newest row of all is found at once, the newest of a sweep by reading its thousands.
    """
    sweep = session.get_one(Sweep, sweep_id)
    driven = has_driver(sweep, now)
    newest = session.execute(_newest(), {"sweep_id": sweep_id}).one()
    return ":".join(
        "" if part is None else str(part) for part in (sweep_id, sweep.status, sweep.driver_id, driven, *newest)
    )


@cache
def _newest() -> Select[*tuple[object, ...]]:
    """Return the query, which takes longer to be put together than to be answered.

    It reads no row of a trial: those hold their whole configuration, and each of their changes has a row elsewhere.
    """
    sweep_id: BindParameter[int] = bindparam("sweep_id")
    of_sweep = select(Trial.id).where(Trial.sweep_id == sweep_id)
    points = select(func.count()).where(Point.trial_id == Segment.trial_id).correlate(Segment).scalar_subquery()
    farthest = (
        select(func.max(Point.optimizer_step)).where(Point.trial_id == Trial.id).correlate(Trial).scalar_subquery()
    )
    segments = (
        select(
            func.max(Segment.id),
            func.max(Segment.started_at),  # set again when a worker begins
            func.count(Segment.ended_at),
            # A trial gets points while a segment is open; steps done again after a loss are new points of known steps.
            func.sum(case((Segment.outcome == SegmentOutcome.RESERVED, points), else_=0)),
        )
        .where(Segment.trial_id.in_(of_sweep))
        .subquery()
    )
    trials = select(func.count(), func.sum(farthest)).where(Trial.sweep_id == sweep_id).subquery()
    requests = (
        select(func.max(Request.id), func.count(Request.taken_at), func.count(Request.ended_at))
        .where(Request.sweep_id == sweep_id)
        .subquery()
    )
    singles: tuple[Select[int], ...] = (
        select(func.max(Decision.number)).where(Decision.sweep_id == sweep_id),
        select(func.max(Recommendation.id)).where(Recommendation.sweep_id == sweep_id),
        select(func.max(Charge.id)).where(Charge.sweep_id == sweep_id),
        select(func.max(Transition.id)),
        select(func.max(Fit.id)),
        select(func.max(ForecastOfFinal.id)),
    )
    columns = (*segments.c, *trials.c, *requests.c, *(each.scalar_subquery() for each in singles))
    joined = segments.join(trials, true()).join(requests, true())
    return select(*columns).select_from(joined)
