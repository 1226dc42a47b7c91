"""`rlplan resume`, `retry`, `pause` and `stop`: asks the driver of a sweep, or drives it on, here or by Slurm."""

import getpass
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from budgets.errors import InputError
from planner.store import open_store
from planner.store.control import in_force, request, unended
from planner.store.finals import at_work
from planner.store.schema import Request, RequestKind
from planner.store.sweeps import sweep_named
from rlplan.actions import sweeping
from rlplan.actions.slurm_job import Submitted, for_slurm, submit_job
from rlplan.commands.ended import Ended
from rlplan.live.sweep_running import followed
from rlplan.requests.run import PauseRequest, ResumeRequest, RetryRequest
from rlplan.wording.answers import Answer, columns
from rlplan.wording.screen import Canvas, Invocation, Part, next_steps
from runner.processes import driver_lives, has_driver

PATIENCE_SECONDS = 5.0
SECONDS_BETWEEN_LOOKS = 0.1
CHANGES = ("accept_changes", "add", "folder", "ray_address", "workers")  # that a driver which holds it cannot heed


@dataclass(frozen=True, repr=False)
class DriverRequest(Answer):
    """What the driver of a sweep was asked, and when it has heard."""

    COLUMNS = columns("sweep kind by at taken_at")

    sweep: str
    kind: RequestKind
    by: str
    at: datetime
    taken_at: datetime | None  # None while its driver has not answered

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Say what happens now, and what to do next."""
        verb, does = "resume", "goes on with it"
        if self.taken_at is None:
            state = f"was asked to {self.kind}; its driver has not answered yet"
            verb, does = "status", "shows whether it has"
        elif self.kind is RequestKind.PAUSE:
            state = (
                "is paused: segments under way end normally, and no new one starts. Workers without one are ended, so "
                "the pause costs no GPU-hours"
            )
        elif self.kind is RequestKind.RESUME:
            state, verb, does = "goes on", "status --watch", "follows it"
        else:
            state = "stops when each trial has ended the update under way and is saved"
        yield from canvas.lines(f"{self.sweep} {state}.")
        yield from next_steps([invocation.step(verb, self.sweep, does)], canvas)


def answer(order: ResumeRequest | RetryRequest | PauseRequest) -> Submitted | DriverRequest | Ended:
    """Ask the driver of a sweep to pause or to stop, or go on with it."""
    if isinstance(order, PauseRequest):
        return ask_driver(order.db, order.sweep, RequestKind(order.KIND))
    if for_slurm(order):
        return submit_job(order)
    if isinstance(order, ResumeRequest) and not order.wait and (end := _end_pause(order)) is not None:
        return end
    return Ended(followed(partial(sweeping.go_on, order), order.db), order.db)


def ask_driver(database: str, sweep: str | None, kind: RequestKind) -> DriverRequest:
    """Ask a sweep's driver, the newest's without a name; RequestRefusedError when nobody drives it or it is so already.

    A database that is not there is not made.
    """
    with open_store(database, read_only=True) as store, store.read() as session:
        name = at_work(session, sweep).name
    with open_store(database, existing=True) as store:
        with store.write() as session:
            row = sweep_named(session, name)
            now = datetime.now(UTC)
            number = request(session, name, kind, this_user(), now, driver_lives=driver_lives(row)).id
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:  # until its driver has taken it
            with store.read() as session:
                stored = session.get_one(Request, number)
                if stored.taken_at is not None or stored.ended_at is not None or time.monotonic() > deadline:
                    return DriverRequest(name, kind, stored.by, stored.at, stored.taken_at)
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _end_pause(resume: ResumeRequest) -> DriverRequest | None:
    """End the pause of a sweep that is driven; None when there is none, so that it may need a driver.

    With options that only a new driver could heed a pause is no reason to go on as it is.
    """
    with open_store(resume.db, existing=True) as store, store.read() as session:
        row = at_work(session, resume.sweep)
        in_effect = in_force(session.scalars(unended(row.id)).all())
        if in_effect is None or in_effect.kind is not RequestKind.PAUSE or not has_driver(row):
            return None
    if flags := [f"--{name.replace('_', '-')}" for name in CHANGES if getattr(resume, name)]:
        raise InputError(
            f"the sweep is paused and its driver still holds it, so {', '.join(flags)} cannot change: leave it out to "
            "let the sweep go on as it is, or stop it with `rlplan stop` first"
        )
    return ask_driver(resume.db, resume.sweep, RequestKind.RESUME)


def this_user() -> str:
    """Name who asks."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container's user may have no name
        return socket.gethostname()
