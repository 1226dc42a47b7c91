"""The list of sweeps: a fixed number of queries, whatever the number of sweeps and trials."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from planner.store.driving import is_driven
from planner.store.schema import Charge, Plan, Recommendation, Segment, SegmentOutcome, Sweep, SweepStatus, Trial
from planner.trials import TrialState
from rlplan.reading.damage import UNREADABLE
from runner.sweep.processes import is_dead

MOST = 50  # on one page


@dataclass(frozen=True, slots=True)
class Listed:
    """One sweep of the list."""

    id: int
    name: str
    state: str  # "damaged" for one of which nothing else can be read
    plan: str = ""
    policy: str = ""
    created_at: datetime | None = None
    trials: int = 0
    running: int = 0
    failed: int = 0
    pilot_gpu_hours: float = 0.0
    spent_gpu_hours: float = 0.0
    reserved_gpu_hours: float = 0.0
    recommended: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the list, the newest first."""

    sweeps: tuple[Listed, ...]
    older_than: int | None  # id from which the next page goes on; None when this is the last

    @property
    def featured(self) -> str | None:
        """The sweep that the first page shows: the newest that is under way, or else the newest."""
        going = (each.name for each in self.sweeps if each.state in ("running", "paused"))
        return next(going, self.sweeps[0].name if self.sweeps else None)


def listing(session: Session, before: int | None = None, *, now: datetime | None = None) -> Listing:
    """Read a page of the list: the newest sweeps, or those before an id."""
    wanted = select(Sweep.id, Sweep.name).order_by(Sweep.id.desc()).limit(MOST + 1)
    if before is not None:
        wanted = wanted.where(Sweep.id < before)
    names = {row.id: row.name for row in session.execute(wanted)}
    shown = list(names)[:MOST]
    moment = now or datetime.now(UTC)
    try:
        known = _listed(session, shown, moment)
    except UNREADABLE:
        known = {}
        for one in shown:  # one by one, so that a damaged row hides no other sweep
            with suppress(*UNREADABLE):
                known |= _listed(session, [one], moment)
    sweeps = tuple(known.get(one) or Listed(one, names[one], "damaged") for one in shown)
    return Listing(sweeps, shown[-1] if len(names) > MOST else None)


def _listed(session: Session, ids: list[int], now: datetime) -> dict[int, Listed]:
    wanted = select(Sweep, Plan.name, Plan.pilot_gpu_hours).join(Plan, Plan.id == Sweep.plan_id)
    trials, segments = _by_sweep(session, _trials(ids)), _by_sweep(session, _segments(ids))
    charges, chosen = _by_sweep(session, _charges(ids)), _by_sweep(session, _recommended(ids))
    found = {}
    for sweep, plan, planned in session.execute(wanted.where(Sweep.id.in_(ids))):
        count, running, failed = trials.get(sweep.id, (0, 0, 0))
        charged, reserved = segments.get(sweep.id, (0.0, 0.0))
        answer = chosen.get(sweep.id)
        found[sweep.id] = Listed(
            id=sweep.id,
            name=sweep.name,
            state=_state(sweep, now),
            plan=plan,
            policy=sweep.policy,
            created_at=sweep.created_at,
            trials=count,
            running=running or 0,
            failed=failed or 0,
            pilot_gpu_hours=_number(sweep.config, "pilot_gpu_hours", planned),
            spent_gpu_hours=(charged or 0.0) + charges.get(sweep.id, (0.0,))[0],
            reserved_gpu_hours=reserved or 0.0,
            recommended=f"n = {answer[0]}, B = {answer[1]}" if answer else None,
        )
    return found


def _state(sweep: Sweep, now: datetime) -> str:
    if sweep.status is SweepStatus.RUNNING and (not is_driven(sweep, now) or is_dead(sweep)):
        return "abandoned"
    return sweep.status.value


def _number(config: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = config.get(name)
    return float(value) if isinstance(value, int | float) else otherwise


def _by_sweep(session: Session, wanted: Any) -> dict[int, tuple[Any, ...]]:
    return {row[0]: tuple(row[1:]) for row in session.execute(wanted)}


def _trials(ids: list[int]) -> Any:
    def counted(state: TrialState) -> Any:
        return func.sum(case((Trial.state == state, 1), else_=0))

    columns = (Trial.sweep_id, func.count(), counted(TrialState.RUNNING), counted(TrialState.FAILED))
    return select(*columns).where(Trial.sweep_id.in_(ids)).group_by(Trial.sweep_id)


def _segments(ids: list[int]) -> Any:
    reserved = case((Segment.outcome == SegmentOutcome.RESERVED, Segment.reserved_gpu_hours), else_=0.0)
    return (
        select(Trial.sweep_id, func.sum(Segment.charged_gpu_hours), func.sum(reserved))
        .join(Segment, Segment.trial_id == Trial.id)
        .where(Trial.sweep_id.in_(ids))
        .group_by(Trial.sweep_id)
    )


def _charges(ids: list[int]) -> Any:
    return select(Charge.sweep_id, func.sum(Charge.gpu_hours)).where(Charge.sweep_id.in_(ids)).group_by(Charge.sweep_id)


def _recommended(ids: list[int]) -> Any:
    newest = (
        select(func.max(Recommendation.id)).where(Recommendation.sweep_id.in_(ids)).group_by(Recommendation.sweep_id)
    )
    columns = (Recommendation.sweep_id, Recommendation.rollouts_per_prompt, Recommendation.prompts_per_batch)
    return select(*columns).where(Recommendation.id.in_(newest))
