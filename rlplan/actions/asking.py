"""Asks a running sweep to pause, to go on or to stop, and waits a moment for its driver's answer."""

import getpass
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from budgets.errors import InputError
from planner.store import open_store
from planner.store.driving import in_force, request, unended
from planner.store.finals import at_work
from planner.store.schema import Request, RequestKind
from planner.store.sweeps import sweep_named
from rlplan.wording.answers import Answer
from rlplan.wording.row_columns import columns
from runner.processes import driver_lives, has_driver

PATIENCE_SECONDS = 5.0
SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True, repr=False)
class Asked(Answer):
    """A request as it stands."""

    DRAWN = "rlplan.commands.asking"
    COLUMNS = columns("sweep kind by at taken_at")

    sweep: str
    kind: RequestKind
    by: str
    at: datetime
    taken_at: datetime | None  # None while its driver has not answered


def ask(database: str, sweep: str | None, kind: RequestKind, *, patience: float = PATIENCE_SECONDS) -> Asked:
    """Ask a sweep's driver, the newest's without a name; RequestRefusedError when nobody drives it or it is so already.

    A database that is not there is not made.
    """
    with open_store(database, read_only=True) as store, store.read() as session:
        name = at_work(session, sweep).name
    with open_store(database, existing=True) as store:
        with store.write() as session:
            row = sweep_named(session, name)
            now = datetime.now(UTC)
            asked = request(session, name, kind, this_user(), now, driver_lives=driver_lives(row))
        deadline = time.monotonic() + patience
        while True:  # until its driver has taken it
            with store.read() as session:
                stored = session.get_one(Request, asked.id)
                if stored.taken_at is not None or stored.ended_at is not None or time.monotonic() > deadline:
                    return Asked(name, kind, stored.by, stored.at, stored.taken_at)
            time.sleep(SECONDS_BETWEEN_LOOKS)


def let_go_on(database: str, sweep: str | None, changes: Mapping[str, object]) -> Asked | None:
    """End the pause of a sweep that is driven; None when there is none, so that it may need a driver.

    `changes` holds options by flag that only a new driver could heed: with them a pause is no reason to go on as it is.
    """
    with open_store(database, existing=True) as store, store.read() as session:
        row = at_work(session, sweep)
        held = in_force(session.scalars(unended(row.id)).all())
        if held is None or held.kind is not RequestKind.PAUSE or not has_driver(row):
            return None
    given = [flag for flag, value in changes.items() if value]
    if given:
        raise InputError(
            f"the sweep is paused and its driver still holds it, so {', '.join(given)} cannot change: leave it out to "
            "let the sweep go on as it is, or stop it with `rlplan stop` first"
        )
    return ask(database, sweep, RequestKind.RESUME)


def this_user() -> str:
    """Name who asks."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container's user may have no name
        return socket.gethostname()
