"""What all curves of a sweep together let one believe: one fit serves recommendation, bands and marks."""

from datetime import UTC, datetime
from functools import cache

from sqlalchemy import BindParameter, Select, bindparam, case, func, select, true
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError, NotFoundError, StoreError, StoreUnavailableError
from planner.belief.forecasts import bands_of
from planner.belief.pool import joint_of
from planner.recommend.prospect import DRAWS
from planner.store import Store
from planner.store.finals import ForecastOfFinal, pilots_of
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
from planner.store.sweeps import sweep_named
from planner.view import has_curve
from rlplan.reading.health import collapsed_from
from rlplan.reading.recommendation import Stored, recommended_for, stored_in
from rlplan.reading.story import Beliefs, Story, read_story
from runner.processes import has_driver

Rows = tuple[Stored, Stored | None]  # of a sweep, and of its pilots where it is their final run


def beliefs(store: Store, sweep: str | None = None) -> Beliefs:
    """Return what is believed of a sweep, by default the newest; NotFoundError when there is none of that name.

    What is recommended is the answer of the pilots, also where the sweep is their final run. Where nothing can be
    recommended, `why_not` says why, and what can be said of the curves is said all the same.
    """
    with store.read() as session:
        rows = _rows(session, store.location, sweep_named(session, sweep))
    return rows if isinstance(rows, Beliefs) else believed(*rows)


def story_and_beliefs(store: Store, sweep: str | None) -> tuple[Story, Beliefs]:
    """Return the story of a sweep and what is believed of it, both of the same moment."""
    with store.read() as session:
        row = sweep_named(session, sweep)
        story = read_story(session, row, datetime.now(UTC), {}, store.location)
        rows = _rows(session, store.location, row)
    return story, rows if isinstance(rows, Beliefs) else believed(*rows)


def _rows(session: Session, location: str, sweep: Sweep) -> Rows | Beliefs:
    """Return what the answer rests on, or that it cannot be read."""
    pilots = pilots_of(session, sweep)
    try:
        board = stored_in(session, location, sweep.name)
        return board, None if pilots.id == sweep.id else stored_in(session, location, pilots.name)
    except (NotFoundError, StoreUnavailableError):
        raise
    except (InputError, StoreError) as error:
        return _unknown(error)


def _unknown(error: InputError | StoreError) -> Beliefs:
    return Beliefs(None, f"no recommendation: {error}", {}, {})


def believed(stored: Stored, pilots: Stored | None = None) -> Beliefs:
    """Return what is believed of a sweep that was read, of a final run with its pilots; curves are fitted once."""
    view = stored.board.view(0)
    scored = [trial for trial in view.trials.values() if has_curve(trial)]
    recommendation, why_not = None, None
    try:
        joint = joint_of(view, DRAWS) if scored else None
        recommendation = recommended_for(stored, joint=joint) if pilots is None else recommended_for(pilots)
    except (NotFoundError, BudgetError) as error:
        why_not = str(error)
    except InputError as error:
        return _unknown(error)
    bands = bands_of(joint, scored) if joint else {}
    cuts = {trial.trial: cut for trial in scored if (cut := collapsed_from(trial.scores)) is not None}
    return Beliefs(recommendation, why_not, bands, cuts)


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
    columns = (*segments.c, *trials.c, *requests.c, *(single.scalar_subquery() for single in singles))
    joined = segments.join(trials, true()).join(requests, true())
    return select(*columns).select_from(joined)
