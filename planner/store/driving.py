"""Who drives a sweep: a lease with a heartbeat, so that two drivers never work on the same one."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from budgets.errors import StoreError
from planner.store.schema import Sweep, SweepStatus
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
            f"{max(0.0, age):.0f} s ago): watch it with `rlplan status {sweep} --watch`, or stop that process first. "
            f"A driver that is silent for {GRACE.total_seconds():.0f} s is taken to be gone"
        )
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
    row.status = status
    row.driver_id = row.driver_host = row.driver_pid = row.heartbeat_at = None
    row.finished_at = now if status in (SweepStatus.FINISHED, SweepStatus.FAILED) else None


def is_driven(sweep: Sweep, now: datetime) -> bool:
    """Whether a driver holds the sweep and was heard of within the grace; a clock that was set back counts as now."""
    return sweep.status is SweepStatus.RUNNING and sweep.heartbeat_at is not None and now - sweep.heartbeat_at < GRACE
