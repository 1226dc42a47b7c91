"""Who drives a sweep: a lease with a heartbeat, so that two drivers never work on the same one."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from budgets.errors import StoreError
from planner.store.records import NewDecision
from planner.store.results import record_decision
from planner.store.schema import Request, Sweep, SweepStatus
from planner.store.sweeps import sweep_named

# A driver that has not been heard of for so long is taken to be gone. Generous: it may wait for a lock, or sleep.
GRACE = timedelta(seconds=90)


@dataclass(frozen=True, slots=True)
class Driver:
    """A process that drives a sweep; the id is unique among all that ever did."""

    id: str
    host: str
    pid: int


class LeaseLostError(StoreError):
    """Another driver has taken the sweep over."""


def take_lease(session: Session, sweep: str, driver: Driver, now: datetime, *, former_is_dead: bool = False) -> None:
    """Make a driver the one that drives the sweep; refused while another one lives.

    `former_is_dead` says that the caller has seen the former driver's process to be gone.
    """
    row = sweep_named(session, sweep)
    if is_driven(row, now) and row.driver_id != driver.id and not former_is_dead:
        age = 0.0 if row.heartbeat_at is None else (now - row.heartbeat_at).total_seconds()
        raise StoreError(
            f"{sweep} is being driven by process {row.driver_pid} on {row.driver_host} (last heard of "
            f"{max(0.0, age):.0f} s ago): watch it with `rlplan status {sweep} --watch`, or stop it with "
            f"`rlplan stop {sweep}`. A driver that is silent for {GRACE.total_seconds():.0f} s is taken to be gone"
        )
    if row.driver_id != driver.id:
        _say_what_was_left(session, row, driver, now)
    row.driver_id, row.driver_host, row.driver_pid = driver.id, driver.host, driver.pid
    row.heartbeat_at, row.finished_at, row.status = now, None, SweepStatus.RUNNING


def hold_lease(session: Session, sweep_id: int, driver: Driver, now: datetime) -> None:
    """Show that the driver lives; LeaseLostError when the sweep is another's by now, so that nothing is stored."""
    row = session.get_one(Sweep, sweep_id)
    if row.driver_id != driver.id:
        raise LeaseLostError(
            f"{row.name} was taken over by process {row.driver_pid} on {row.driver_host}, because this one was silent "
            "for too long; nothing more is stored from here"
        )
    row.heartbeat_at = now


def end_lease(session: Session, sweep_id: int, driver: Driver, status: SweepStatus, now: datetime) -> None:
    """Let go of a sweep and say how it stands."""
    hold_lease(session, sweep_id, driver, now)
    row = session.get_one(Sweep, sweep_id)
    left = update(Request).where(Request.sweep_id == sweep_id, Request.ended_at.is_(None))
    session.execute(left.where(Request.taken_at.is_not(None)).values(ended_at=now, note=str(status)))
    session.execute(left.values(ended_at=now, note=f"not taken: the sweep had ended ({status})"))
    row.status = status
    row.driver_id = row.driver_host = row.driver_pid = row.heartbeat_at = None
    row.finished_at = now if status in (SweepStatus.FINISHED, SweepStatus.FAILED) else None


def is_driven(sweep: Sweep, now: datetime) -> bool:
    """Whether a driver holds the sweep and was heard of within the grace; a clock that was set back counts as now."""
    return sweep.status is SweepStatus.RUNNING and sweep.heartbeat_at is not None and now - sweep.heartbeat_at < GRACE


def _say_what_was_left(session: Session, sweep: Sweep, driver: Driver, now: datetime) -> None:
    """End what was asked of a driver that is gone, and log it: going on is the newer wish, but none is lost unseen."""
    left = select(Request).where(Request.sweep_id == sweep.id, Request.ended_at.is_(None)).order_by(Request.id)
    for request in list(session.scalars(left)):
        state = "taken but not carried out to its end" if request.taken_at is not None else "not taken"
        request.ended_at = now
        request.note = f"{state}: the driver was gone; process {driver.pid} on {driver.host} took the sweep up again"
        reason = f"the {request.kind} that {request.by} asked for at {request.at:%H:%M:%S} UTC was {request.note}"
        record_decision(session, sweep.name, NewDecision(now, "request", reason))
