"""Who drives a sweep, by a lease with a heartbeat, and what people ask of its driver: to pause, to go on, to stop.

Two drivers never work on the same sweep. A request waits until the driver takes it, is in force until what it asked for
is over, and then stays as a record; who takes a sweep over, or lets go of it, ends all that are left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from budgets.errors import NotFoundError, StoreError
from planner.store.results import record_decision
from planner.store.schema import Request, RequestKind, Sweep, SweepStatus
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


def take_lease(
    session: Session, sweep: str, driver: Driver, now: datetime, *, former_lives: bool | None = None
) -> datetime | None:
    """Make a driver the one that drives the sweep; refused while another one lives.

    Returns when the former driver was last heard of, by which what it left is charged; None where it let go itself.
    `former_lives` is whether the caller has seen the former driver's process; None where it cannot, as on another host.
    """
    row = sweep_named(session, sweep)
    last_heard_of = row.heartbeat_at
    if is_driven(row, now, lives=former_lives) and row.driver_id != driver.id:
        age = 0.0 if row.heartbeat_at is None else (now - row.heartbeat_at).total_seconds()
        silent = f"A driver that is silent for {GRACE.total_seconds():.0f} s is taken to be gone"
        hangs = f"Where it hangs, end it with `kill -9 {row.driver_pid}`: while its process lives nobody takes over"
        raise StoreError(
            f"{sweep} is being driven by process {row.driver_pid} on {row.driver_host} (last heard of "
            f"{max(0.0, age):.0f} s ago): watch it with `rlplan status {sweep} --watch`, or stop it with "
            f"`rlplan stop {sweep}`. {hangs if former_lives else silent}"
        )
    if row.driver_id != driver.id:
        # Going on is the newer wish, but what was asked of a driver that is gone is not lost unseen.
        for request in list(session.scalars(unended(row.id))):
            state = "taken but not carried out to its end" if request.taken_at is not None else "not taken"
            request.ended_at = now
            request.note = (
                f"{state}: the driver was gone; process {driver.pid} on {driver.host} took the sweep up again"
            )
            reason = f"the {request.kind} that {request.by} asked for at {request.at:%H:%M:%S} UTC was {request.note}"
            record_decision(session, row.name, now, "request", reason)
    row.driver_id, row.driver_host, row.driver_pid = driver.id, driver.host, driver.pid
    row.heartbeat_at, row.finished_at, row.status = now, None, SweepStatus.RUNNING
    return last_heard_of


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
    unfinished = update(Request).where(Request.sweep_id == sweep_id, Request.ended_at.is_(None))
    session.execute(unfinished.where(Request.taken_at.is_not(None)).values(ended_at=now, note=str(status)))
    session.execute(unfinished.values(ended_at=now, note=f"not taken: the sweep had ended ({status})"))
    row.status = status
    row.driver_id = row.driver_host = row.driver_pid = row.heartbeat_at = None
    row.finished_at = now if status in (SweepStatus.FINISHED, SweepStatus.FAILED) else None


def is_driven(sweep: Sweep, now: datetime, *, lives: bool | None = None) -> bool:
    """Whether a driver holds the sweep: its process lives, or, where that is not known, was heard of within the grace.

    No clock decides where the process can be seen; one that was set back counts as now.
    """
    if sweep.status is not SweepStatus.RUNNING or sweep.heartbeat_at is None:
        return False
    return now - sweep.heartbeat_at < GRACE if lives is None else lives


class RequestRefusedError(NotFoundError):
    """Nobody drives the sweep, or it does already what is asked for: there is nothing to do."""


def request(
    session: Session, sweep: str | None, kind: RequestKind, by: str, now: datetime, *, driver_lives: bool | None = None
) -> Request:
    """Ask the driver of a sweep, None being the newest, for something; return the stored row.

    RequestRefusedError is raised where that makes no sense; `driver_lives` is whether the caller has seen its process.
    """
    row = sweep_named(session, sweep)
    if not is_driven(row, now, lives=driver_lives):
        if row.status in (SweepStatus.FINISHED, SweepStatus.FAILED):
            why = f"it has ended ({row.status}). `rlplan status {row.name}` shows it"
        else:
            gone = row.status is SweepStatus.RUNNING
            state = "its driver is gone" if gone else f"no process drives it ({row.status})"
            why = f"{state}. `rlplan resume {row.name}` goes on with it"
        raise RequestRefusedError(f"{row.name} cannot be asked to {kind}: {why}")
    refused = _pointless(row.name, kind, list(session.scalars(unended(row.id))))
    if refused is not None:
        raise RequestRefusedError(refused)
    row_of_request = Request(sweep_id=row.id, at=now, kind=kind, by=by)
    session.add(row_of_request)
    session.flush()
    return row_of_request


def waiting(session: Session, sweep_id: int) -> list[Request]:
    """Return what the driver has not taken yet, oldest first."""
    return list(session.scalars(unended(sweep_id).where(Request.taken_at.is_(None))))


def take(session: Session, taken: Request, now: datetime) -> None:
    """Mark a request as taken; going on is done with that, and ends the pause. Marking it twice changes nothing."""
    row = update(Request).where(Request.id == taken.id, Request.taken_at.is_(None), Request.ended_at.is_(None))
    if taken.kind is not RequestKind.RESUME:
        session.execute(row.values(taken_at=now))
        return
    session.execute(row.values(taken_at=now, ended_at=now, note="went on"))
    sweep_id = select(Request.sweep_id).where(Request.id == taken.id).scalar_subquery()
    pauses = update(Request).where(
        Request.sweep_id == sweep_id,
        Request.ended_at.is_(None),
        Request.kind == RequestKind.PAUSE,
        Request.id < taken.id,
    )
    session.execute(pauses.values(ended_at=now, note=f"went on, on request of {taken.by}"))


def unended(sweep_id: int) -> Select[Request]:
    """Return the query of all requests of a sweep that wait or are in force, oldest first."""
    return select(Request).where(Request.sweep_id == sweep_id, Request.ended_at.is_(None)).order_by(Request.id)


def in_force(requests: Sequence[Request]) -> Request | None:
    """Return of the unended requests the stop or else the pause that holds a sweep, or will once it is taken."""
    holding = [request for request in requests if request.kind is not RequestKind.RESUME]
    return next((request for request in holding if request.kind is RequestKind.STOP), holding[-1] if holding else None)


def pausing(session: Session) -> set[int]:
    """Return the sweeps that hand out no segments because somebody asked so; their drivers may be gone by now."""
    query = select(Request).where(Request.ended_at.is_(None)).order_by(Request.sweep_id, Request.id)
    by_sweep = groupby(session.scalars(query), key=attrgetter("sweep_id"))
    return {sweep for sweep, requests in by_sweep if pauses(in_force(list(requests)))}


def pauses(request: Request | None) -> bool:
    """Say whether what is in force is a pause that the driver has heard of."""
    return request is not None and request.kind is RequestKind.PAUSE and request.taken_at is not None


def _pointless(sweep: str, kind: RequestKind, requests: Sequence[Request]) -> str | None:
    """Return why a request would change nothing after those that are waiting or in force."""
    stop = next((request for request in requests if request.kind is RequestKind.STOP), None)
    if stop is not None:
        return (
            f"{sweep} is being stopped already, on request of {stop.by}: each trial ends the update under way. "
            f"`rlplan resume {sweep}` goes on with it afterwards"
        )
    last = requests[-1] if requests else None
    if kind is RequestKind.PAUSE and last is not None and last.kind is RequestKind.PAUSE:
        state = "is to be paused" if last.taken_at is None else "is paused"
        return f"{sweep} {state} already, on request of {last.by}. `rlplan resume {sweep}` lets it go on"
    if kind is RequestKind.RESUME and (last is None or last.kind is RequestKind.RESUME):
        return f"{sweep} is not paused: it runs. `rlplan status {sweep}` shows how it stands"
    return None
