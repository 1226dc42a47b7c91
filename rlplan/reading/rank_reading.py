"""The ranked allocations of a sweep or a plan: as they were stored, or as they are believed to be now."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError, NotFoundError, StoreError
from planner.axes import from_text
from planner.store import Store, open_store
from planner.store.records import RankedRow
from planner.store.results import ranked_allocations
from planner.store.schema import Plan, Recommendation, Segment, Sweep, SweepStatus, Trial
from planner.store.sweeps import missing, plan_named

SETTLED = (SweepStatus.FINISHED, SweepStatus.FAILED)


class Source(StrEnum):
    """Where a ranking comes from."""

    STORED = "stored"  # under the newest recommendation of a sweep
    NOW = "now"  # from all that is believed now
    PROPOSED = "proposed"  # as the plan proposes; expectations are its prior


@dataclass(frozen=True, slots=True)
class Ranking:
    """RankedRow allocations, and what they are of."""

    plan: str
    sweep: str | None
    status: SweepStatus | None
    source: Source
    made_at: datetime | None  # of the recommendation that it was stored under
    rows: tuple[RankedRow, ...]
    note: str | None = None  # why it is not what one might expect


def ranking(database: str, name: str | None = None, *, stored: bool = False) -> Ranking:
    """Return the ranking of a sweep or of a plan, by default of the newest sweep, or of the newest plan without one.

    What was stored is shown where a sweep has ended and nothing was added since, or where `stored` asks for it, or
    where nothing can be said now; else the answer is worked out from all that is known, and nothing is changed.
    """
    with open_store(database, read_only=True) as store:
        found, current = _stored(store, name)
    if found.sweep is None or current or stored:
        return found
    try:
        return replace(found, source=Source.NOW, made_at=None, rows=_believed_now(database, found.sweep))
    except StoreError:
        raise
    except (NotFoundError, InputError, BudgetError) as error:
        return replace(found, note=f"this is what is stored: {error}")


def _stored(store: Store, name: str | None) -> tuple[Ranking, bool]:
    """Return what the view has, and whether it is still what one would say."""
    with store.read() as session:
        plan, sweep = _named(session, name)
        if sweep is None:
            rows = ranked_allocations(session, None, plan)
            return Ranking(plan, None, None, Source.PROPOSED, None, _rows(rows, None)), True
        made_at = session.scalar(select(func.max(Recommendation.made_at)).where(Recommendation.sweep_id == sweep.id))
        rows = ranked_allocations(session, sweep.name, None)
        source = Source.PROPOSED if made_at is None else Source.STORED
        found = Ranking(plan, sweep.name, sweep.status, source, made_at, _rows(rows, sweep.name))
        current = made_at is not None and sweep.status in SETTLED and made_at >= _changed_at(session, sweep)
        return found, current


def _named(session: Session, name: str | None) -> tuple[str, Sweep | None]:
    """Return the plan and the sweep that a name stands for; of a plan, the newest sweep."""
    newest = select(Sweep).order_by(Sweep.id.desc()).limit(1)
    sweep = session.scalar(newest if name is None else newest.where(Sweep.name == name))
    if sweep is not None:
        return session.scalars(select(Plan.name).where(Plan.id == sweep.plan_id)).one(), sweep
    known = list(session.scalars(select(Plan.name).order_by(Plan.id)))
    if name is not None and name not in known:
        sweeps = session.scalars(select(Sweep.name).order_by(Sweep.id))
        raise NotFoundError(missing("sweep or plan", name, [*known, *sweeps]))
    plan = plan_named(session, name)
    return plan.name, session.scalar(newest.where(Sweep.plan_id == plan.id))


def _changed_at(session: Session, sweep: Sweep) -> datetime:
    """Return when something was last added to a sweep that an answer rests on."""
    moved = session.scalar(select(func.max(Trial.updated_at)).where(Trial.sweep_id == sweep.id))
    settled = session.scalar(
        select(func.max(Segment.ended_at)).join(Trial, Trial.id == Segment.trial_id).where(Trial.sweep_id == sweep.id)
    )
    return max(each for each in (sweep.created_at, moved, settled) if each is not None)


def _rows(found: list[dict[str, Any]], sweep: str | None) -> tuple[RankedRow, ...]:
    names = [name for name in RankedRow.__dataclass_fields__ if name != "axes"]
    of_sweep = [row for row in found if row["sweep"] == sweep]
    return tuple(RankedRow(**{name: row[name] for name in names}, axes=from_text(row["axes"])) for row in of_sweep)


def _believed_now(database: str, sweep: str) -> tuple[RankedRow, ...]:
    from rlplan.reading.recommend_reading import recommended  # noqa: PLC0415 (takes a second to import)
    from runner.sweep.concluding import rankings  # noqa: PLC0415

    return tuple(rankings(recommended(database, sweep).answer))
