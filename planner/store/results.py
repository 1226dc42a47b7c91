"""Stores what is concluded: fits, decisions, recommendations; and reads the ranked allocations."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from planner.store.plans import plan_named
from planner.store.records import NewDecision, NewFit, NewRanking, NewRecommendation
from planner.store.schema import RANKED_ALLOCATIONS, Decision, Fit, Ranking, Recommendation
from planner.store.sweeps import sweep_named


def record_fit(session: Session, fit: NewFit) -> int:
    """Store what a trial's curve is believed to be, and return the fit's id."""
    row = Fit(**vars(fit))
    session.add(row)
    session.flush()
    return row.id


def record_decision(session: Session, sweep: str, decision: NewDecision) -> int:
    """Store a decision of a sweep, and return its number, counted from 1."""
    sweep_id = sweep_named(session, sweep).id
    last = session.scalar(select(func.max(Decision.number)).where(Decision.sweep_id == sweep_id))
    row = Decision(sweep_id=sweep_id, number=(last or 0) + 1, **vars(decision))
    session.add(row)
    return row.number


def save_recommendation(
    session: Session, sweep: str, recommendation: NewRecommendation, rankings: Sequence[NewRanking]
) -> int:
    """Store a recommendation with the whole ranked list it rests on, and return its id."""
    rows = [Ranking(**vars(ranking)) for ranking in rankings]
    row = Recommendation(sweep_id=sweep_named(session, sweep).id, rankings=rows, **vars(recommendation))
    session.add(row)
    session.flush()
    return row.id


def ranked_allocations(session: Session, sweep: str | None, plan: str | None) -> list[dict[str, Any]]:
    """Return the rows of the view, of one sweep or plan or of all, the newest first and then by rank."""
    wanted = select(RANKED_ALLOCATIONS)
    if sweep is not None:
        sweep_named(session, sweep)
        wanted = wanted.where(RANKED_ALLOCATIONS.c.sweep == sweep)
    if plan is not None:
        plan_named(session, plan)
        wanted = wanted.where(RANKED_ALLOCATIONS.c.plan == plan)
    return [dict(row) for row in session.execute(wanted).mappings()]
