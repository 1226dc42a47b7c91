"""Reads a sweep's picture: a fixed number of queries, whatever the number of trials."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from budgets.hardware import SECONDS_PER_HOUR
from planner.metrics import Metric
from planner.store import Store
from planner.store.driving import in_force, is_driven, unended
from planner.store.schema import Charge, Plan, Ranking, Recommendation, Sweep
from planner.store.sweeps import sweep_named
from rlplan.reading.decisions import last_decisions
from rlplan.reading.points import Memory
from rlplan.reading.sweep_picture import Answer, Driver, Hold, Money, Picture, Ranked
from rlplan.reading.sweep_trials import Granted, granted, trial_rows
from rlplan.reading.sweeps import workload_name
from runner.sweep.processes import is_dead

LAST_DECISIONS = 8


def picture(
    store: Store, sweep: str | None = None, *, now: datetime | None = None, memory: Memory | None = None
) -> Picture:
    """Return how a sweep, by default the newest, stands; NotFoundError when there is none of that name.

    Who asks again and again about one sweep keeps a `memory`, an empty dict at first: what it holds is not read again.
    """
    with store.read() as session:
        return read_picture(session, sweep_named(session, sweep), now or datetime.now(UTC), memory)


def read_picture(session: Session, sweep: Sweep, now: datetime, memory: Memory | None = None) -> Picture:
    """Read the picture of a sweep in a transaction that is open already."""
    plan = session.execute(
        select(Plan.name, Plan.pilot_gpu_hours, Plan.workload, Plan.hardware).where(Plan.id == sweep.plan_id)
    ).one()
    driven = is_driven(sweep, now) and not is_dead(sweep)
    grants, metric = granted(session, sweep.id), Metric.of_sweep(sweep.config)
    money = _money(session, sweep, plan.pilot_gpu_hours, grants)
    trials, changed_at = trial_rows(session, sweep.id, grants, {} if memory is None else memory, metric)
    decided = last_decisions(session, sweep.id, LAST_DECISIONS)
    hold = _hold(session, sweep.id)
    return Picture(
        sweep=sweep.name,
        plan=plan.name,
        policy=sweep.policy,
        metric=metric.name,
        workload=workload_name(sweep.config, plan.workload),
        seed=sweep.seed,
        status=sweep.status,
        driver=_driver(sweep, now, driven),
        money=money,
        trials=trials,
        decisions=decided[-1].number if decided else 0,
        last_decisions=decided,
        elapsed_seconds=_elapsed(sweep, changed_at, now if driven else None),
        seconds_left=_seconds_left(money, grants, plan.hardware, now) if driven and hold is None else None,
        answer=_answer(session, sweep.id),
        config=sweep.config,
        hold=hold,
    )


def _hold(session: Session, sweep_id: int) -> Hold | None:
    row = in_force(session.scalars(unended(sweep_id)).all())
    return None if row is None else Hold(row.kind, row.by, row.at, row.taken_at)


def _money(session: Session, sweep: Sweep, planned: float, grants: Granted) -> Money:
    charges = (
        select(Charge.kind, func.sum(Charge.gpu_hours))
        .where(Charge.sweep_id == sweep.id)
        .group_by(Charge.kind)
        .order_by(Charge.kind)
    )
    return Money(
        pilot_gpu_hours=float(sweep.config.get("pilot_gpu_hours", planned)),
        by_outcome=grants.charged,
        by_charge={row[0]: row[1] for row in session.execute(charges)},
        reserved=grants.reserved,
    )


def _answer(session: Session, sweep_id: int) -> Answer | None:
    newest = (
        select(Recommendation).where(Recommendation.sweep_id == sweep_id).order_by(Recommendation.id.desc()).limit(1)
    )
    row = session.scalar(newest)
    if row is None:
        return None
    wanted = select(Ranking).where(Ranking.recommendation_id == row.id).order_by(Ranking.rank)
    return Answer(
        ranking=tuple(Ranked(**_fields(each, Ranked)) for each in session.scalars(wanted)),
        **_fields(row, Answer, without="ranking"),
    )


def _fields(row: object, kind: type[Answer] | type[Ranked], without: str = "") -> dict[str, Any]:
    return {each.name: getattr(row, each.name) for each in fields(kind) if each.name != without}


def _driver(sweep: Sweep, now: datetime, alive: bool) -> Driver | None:
    if sweep.driver_host is None or sweep.driver_pid is None or sweep.heartbeat_at is None:
        return None
    silent = max(0.0, (now - sweep.heartbeat_at).total_seconds())
    return Driver(sweep.driver_host, sweep.driver_pid, silent, alive)


def _elapsed(sweep: Sweep, changed_at: datetime | None, now: datetime | None) -> float:
    """Return the seconds from the sweep's making to its end, or to its last sign of life; now while it is driven."""
    end = sweep.finished_at or now or sweep.heartbeat_at or changed_at or sweep.created_at
    return max(0.0, (end - sweep.created_at).total_seconds())


def _seconds_left(money: Money, grants: Granted, hardware: Mapping[str, Any], now: datetime) -> float | None:
    """Return how long what is left lasts at the present pace: each open segment occupies its GPUs all the time."""
    if not grants.open_since:
        return None
    gpus = float(hardware.get("gpus_per_trial") or 1)
    under_way = sum(max(0.0, (now - start).total_seconds()) for start in grants.open_since) * gpus / SECONDS_PER_HOUR
    remaining = money.left + max(0.0, money.reserved - under_way)
    return remaining / (gpus * len(grants.open_since)) * SECONDS_PER_HOUR
