"""The database that `--db` names: where it lies, whether it can be used, and what the sweeps in it wait for."""

import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select

from budgets.errors import NotFoundError, RlplanError, StoreError, StoreUnavailableError
from planner.store import open_store
from planner.store.engine import locate, masked
from planner.store.filesystems import FileSystem, filesystem_of
from planner.store.fresh import VERSION
from planner.store.schema import Sweep, SweepStatus
from rlplan.doctor.finding import Finding, bad, mind, ok
from rlplan.doctor.machine import GIB, Disk, disk_of, size
from rlplan.wording.commands import command, typed_here
from runner.processes import SWEEP_TAG, has_driver, sweep_tag, tagged
from runner.sweep.home import is_anothers

ANSWER_SECONDS = 3.0
LEAST_DISK, EASY_DISK = GIB // 2, 5 * GIB


@dataclass(frozen=True, slots=True)
class Running:
    """A sweep that says that it runs."""

    name: str
    process: str  # of its driver
    alive: bool
    silent_seconds: float
    orphans: tuple[int, ...]  # processes that its workers left, where its driver is gone


@dataclass(frozen=True, slots=True)
class Storage:
    """The database as it was found."""

    shown: str
    folder: str | None  # of an SQLite file
    filesystem: FileSystem
    writable: bool  # the folder, and the file if there is one
    disk: Disk | None
    state: str  # current, absent, unavailable, silent, refused
    said: str  # by the error
    sweeps: int
    running: tuple[Running, ...]


def probe(database: str) -> Storage:
    """Look at a database without changing it."""
    try:
        place = locate(database)
    except StoreError as error:
        return Storage(masked(database), None, FileSystem(), False, None, "refused", str(error), 0, ())
    folder, filesystem, writable = None, FileSystem(), True
    shown = str(place) if isinstance(place, Path) else masked(place.set(drivername="postgresql").render_as_string())
    if isinstance(place, Path):
        folder = place.parent
        filesystem = filesystem_of(place.resolve())
        writable = os.access(folder, os.W_OK | os.X_OK) and (not place.exists() or os.access(place, os.R_OK | os.W_OK))
    state, reason, sweeps, running = _within(ANSWER_SECONDS, lambda: _read(database))
    where = None if folder is None else str(folder)
    disk = None if folder is None else disk_of(folder)
    return Storage(shown, where, filesystem, writable, disk, state, reason, sweeps, running)


def check(facts: Storage) -> Iterator[Finding]:
    """Say whether sweeps can be stored, and how those stand that run."""
    yield _database(facts)
    yield from _disk(facts)
    for sweep in facts.running:
        yield from _running(sweep, facts.shown)


def _database(facts: Storage) -> Finding:
    for wrong in (_place(facts), _answer(facts)):
        if wrong is not None:
            why, do = wrong
            return bad("database", facts.shown, why, do)
    if facts.state == "absent":
        return ok("database", f"{facts.shown} is not there yet; `rlplan propose` makes it")
    sweeps = "no sweep" if not facts.sweeps else f"{facts.sweeps} sweep{'s' if facts.sweeps > 1 else ''}"
    return ok("database", f"{facts.shown}, version {VERSION}, writable, {sweeps}")


def _place(facts: Storage) -> tuple[str, str] | None:
    """Say why no database can lie there, and what to do."""
    if obstacle := facts.filesystem.obstacle:
        return f"it is on {obstacle}", "give a path on a local disk, or --db postgresql://user@host/database"
    if facts.folder is not None and facts.disk is None:
        return "its directory does not exist", f"mkdir -p {shlex.quote(facts.folder)}"
    if not facts.writable and facts.state != "refused":
        why = "this user may not write there: SQLite needs the directory too, for the files beside its own"
        return why, f"chmod u+w {shlex.quote(facts.folder or '.')}, or give another path with --db"
    return None


def _answer(facts: Storage) -> tuple[str, str] | None:
    """Say why a database cannot be used, and what to do."""
    if facts.state == "refused":
        driver = "PostgreSQL driver" in facts.said
        return facts.said, (
            f"{sys.executable} -m pip install 'rlplan[postgres]'"
            if driver
            else "give another path or address with --db"
        )
    if facts.state in ("unavailable", "silent"):
        return facts.said, "see that it is up and lets you in, or give another with --db"
    return None


def _disk(facts: Storage) -> Iterator[Finding]:
    disk = facts.disk
    if disk is None:
        return
    found = f"{size(disk.free_bytes)} free in {disk.folder}"
    do = "free some space, or give another path with --db, and --folder for checkpoints"
    if disk.free_bytes < LEAST_DISK:
        yield bad("disk", found, "the database and the checkpoints of a sweep need more", do)
    elif disk.free_bytes < EASY_DISK:
        yield mind("disk", found, "checkpoints of all but the embedded tasks' models may fill it", do)
    else:
        yield ok("disk", found)


def _running(sweep: Running, database: str) -> Iterator[Finding]:
    if sweep.alive:
        yield ok(sweep.name, f"driven by {sweep.process}, last heard of {sweep.silent_seconds:.0f} s ago")
        return
    found = f"its driver, {sweep.process}, is gone"
    resume = command("resume", sweep.name, typed_here(database))
    yield mind(sweep.name, found, "nothing of it runs; what is finished is safe", resume)
    if sweep.orphans:
        found = f"{len(sweep.orphans)} processes of {sweep.name} outlived its driver"
        why = "they hold cores and memory, and nobody takes their results; resuming the sweep ends them too"
        yield mind("orphans", found, why, f"kill {' '.join(map(str, sweep.orphans))}")


Read = tuple[str, str, int, tuple[Running, ...]]


def _read(database: str) -> Read:
    try:
        with (
            open_store(database, read_only=True, lock_timeout_seconds=ANSWER_SECONDS) as store,
            store.read() as session,
        ):
            count = session.scalar(select(func.count()).select_from(Sweep)) or 0
            rows = session.scalars(select(Sweep).where(Sweep.status == SweepStatus.RUNNING).order_by(Sweep.id))
            return "current", "", count, tuple(_as_found(row, store.location) for row in rows)
    except NotFoundError as error:
        return "absent", str(error), 0, ()
    except StoreUnavailableError as error:
        return "unavailable", str(error), 0, ()
    except RlplanError as error:
        return "refused", str(error), 0, ()


def _as_found(row: Sweep, database: str) -> Running:
    now = datetime.now(UTC)
    alive = has_driver(row, now)
    silent = 0.0 if row.heartbeat_at is None else max(0.0, (now - row.heartbeat_at).total_seconds())
    folder = str(row.config.get("folder", ""))
    ended = not alive and not is_anothers(folder, database)
    left = tuple(sorted(tagged({f"{SWEEP_TAG}={sweep_tag(folder)}"}))) if ended else ()
    return Running(row.name, f"process {row.driver_pid} on {row.driver_host}", alive, silent, left)


def _within(seconds: float, read: Callable[[], Read]) -> Read:
    """Read in a thread of its own: a server that is not there can keep a connection waiting for minutes."""
    found: list[Read] = []
    thread = threading.Thread(target=lambda: found.append(read()), daemon=True)
    thread.start()
    thread.join(seconds)
    with suppress(IndexError):
        return found[0]
    return "silent", f"it does not answer within {seconds:g} s", 0, ()
