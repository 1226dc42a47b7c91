"""The processes of a sweep: which one drives it, and those that outlived their worker, found and ended.

They are found by a tag in their environment. A program that sets its own title, as Ray's and vLLM's workers do, writes
that over its environment: it is found by its kin, as what descends from one with the tag, or is in a session of its.
"""

import ctypes
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # workers need nothing of a database
    from planner.store.driving import Driver
    from planner.store.schema import Sweep


SWEEP_TAG = "RLPLAN_SWEEP"  # in the environment of all that a sweep starts; its value is the sweep's own
DRIVER_TAG = "RLPLAN_DRIVER"  # in that of what one of its drivers starts: another may have taken the sweep over
WORKER_TAG = "RLPLAN_WORKER"  # in that of what one worker starts
_GUARD = """
import os, sys
if os.fork():
    os._exit(0)
root, *tags = sys.argv[1:]
sys.path.insert(0, root)
from runner.processes import sweep_orphans
sys.stdin.buffer.read()
sweep_orphans(*tags)
"""
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 0.5  # seconds from asking to killing
_LONGEST = 10.0  # seconds after which what cannot be killed, such as a process stuck in a driver, is left

_ROOT = str(Path(__file__).resolve().parents[1])  # of our packages

_adopts = False


def search_path() -> str:
    """Return the PYTHONPATH of a process of ours: the packages need not be installed where this one found them."""
    return os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))


def sweep_orphans(tag: str, worker: str | None = None, *, driver: str | None = None) -> int:
    """End every process of this user that carries a sweep's tag, or one worker's or driver's; return how many.

    All of a sweep's are for who holds its lease. The caller itself is spared. Where there is no /proc nothing is found.
    """
    values = {SWEEP_TAG: tag, WORKER_TAG: worker, DRIVER_TAG: driver}
    wanted = {f"{name}={value}" for name, value in values.items() if value is not None}
    return len(end_all(lambda: tagged(wanted), _PATIENCE))


def kill_worker(tag: str, worker: str, pid: int) -> int:
    """Kill a worker, which is a process of Ray's on this machine, and all that it has started; return how many."""
    with suppress(OSError):
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):  # else its number is another's by now
            os.kill(pid, signal.SIGKILL)
    return sweep_orphans(tag, worker)


def sweep_after_death(tag: str, worker: str) -> "subprocess.Popen[bytes]":
    """Have what carries a worker's tags ended when this process is gone, however that comes: by a process of its own.

    It waits for the end of a pipe whose other end is held here, as long as what is returned is; and it is no child of
    this process, since Ray kills a dead worker's children first.
    """
    guard = subprocess.Popen(
        [sys.executable, "-c", _GUARD, _ROOT, tag, worker],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, SWEEP_TAG: tag, WORKER_TAG: worker},
        start_new_session=True,
    )
    guard.wait()  # for its fork
    return guard


def end_session(session: int) -> int:
    """Kill every process of a terminal session at once, without the caller, and return how many there were.

    Ray's agents write over their own environment, where the tag is, but they stay in the session of who started Ray.
    """
    return len(end_all(lambda: in_session(session), 0.0))


def end_all(living: Callable[[], set[int]], patience: float) -> set[int]:
    """Ask processes and their kin to end for a while, then kill them, until none is there or none can be killed."""
    found: dict[int, _Stat] = {}
    began = time.monotonic()
    while (waited := time.monotonic() - began) <= _LONGEST:
        there = _stats()
        known = {pid for pid, stat in found.items() if pid in there and there[pid].born == stat.born}
        left = _kin(living() | known, there)
        if not left:
            break
        found |= {pid: there[pid] for pid in left}
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM if waited < patience else signal.SIGKILL)
        time.sleep(0.03)
    return set(found)


@dataclass(frozen=True, slots=True)
class _Stat:
    """What the kernel says of a process."""

    dead: bool  # and not yet taken leave of by its parent
    parent: int
    session: int
    born: int


def _stats() -> dict[int, _Stat]:
    """Return the living processes of this user, without the caller."""
    return {pid: stat for pid, stat in _all_stats() if not stat.dead}


def _all_stats() -> Iterator[tuple[int, _Stat]]:
    for pid, text in _read("stat"):
        fields = text.rpartition(b")")[2].split()  # the third of proc(5) and those after it
        yield pid, _Stat(fields[0] in (b"Z", b"X"), int(fields[1]), int(fields[3]), int(fields[19]))


def _kin(pids: set[int], there: Mapping[int, _Stat]) -> set[int]:
    """Return those of some processes that are there, with all that descends from them or is in a session of theirs."""
    kin, before = set(pids), 0
    while len(kin) > before:
        before = len(kin)
        kin |= {pid for pid, stat in there.items() if stat.parent in kin or stat.session in kin}
    return kin & there.keys()


def adopt_orphans() -> None:
    """Become the parent of whatever this process's descendants leave behind, where the kernel can do that."""
    global _adopts  # noqa: PLW0603 (as the kernel's, it is the process's)
    if sys.platform == "linux":
        _adopts = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def adopted(started: set[int]) -> set[int]:
    """Return the living children that this process has not started but adopted, and take leave of dead ones.

    Whatever it starts in another session is in `started`, or has a sweep's tag.
    """
    own, found = os.getsid(0), set()
    for pid, stat in _all_stats() if _adopts else ():
        if stat.parent != os.getpid() or stat.session == own or pid in started:
            continue
        if stat.dead:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        else:
            found.add(pid)
    begins = f"{SWEEP_TAG}=".encode()
    return found and found - {pid for pid, text in _read("environ") if pid in found and begins in text}


def sweep_tag(folder: str) -> str:
    """Return the tag that all processes of the sweep with this folder carry, whoever drives it."""
    return f"rlplan-{hashlib.sha256(folder.encode()).hexdigest()[:12]}"


def tagged(wanted: set[str]) -> set[int]:
    """Return the processes of this user, without the caller, whose environment holds all of `NAME=value`."""
    lines = {text.encode() for text in wanted}
    return {pid for pid, environment in _read("environ") if lines <= set(environment.split(b"\0"))}


def by_tag() -> dict[str, set[int]]:
    """Return the processes of this user, without the caller, that a sweep has started, by the sweep's tag."""
    begins = f"{SWEEP_TAG}=".encode()
    found: dict[str, set[int]] = {}
    for pid, environment in _read("environ"):
        for line in environment.split(b"\0"):
            if line.startswith(begins):
                found.setdefault(line.removeprefix(begins).decode(errors="replace"), set()).add(pid)
    return found


def in_session(session: int) -> set[int]:
    """Return the living processes of this user, without the caller, that belong to a session."""
    return {pid for pid, stat in _stats().items() if stat.session == session}


def _read(name: str) -> Iterator[tuple[int, bytes]]:
    """Yield a file of /proc for each process of this user but the caller."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if path.stat().st_uid == os.getuid() and int(path.name) != os.getpid():
                yield int(path.name), (path / name).read_bytes()


def this_driver() -> "Driver":
    """Return this process as a driver; the id holds its birth, since process numbers are used again."""
    from planner.store.driving import Driver  # noqa: PLC0415

    return Driver(f"{uuid.uuid4().hex}@{_ticks(os.getpid())}/{_world()}", socket.gethostname(), os.getpid())


def has_driver(sweep: "Sweep", now: datetime | None = None) -> bool:
    """Whether somebody drives a sweep: its driver was heard of lately, and is not known to be gone."""
    from planner.store.driving import is_driven  # noqa: PLC0415 (workers need nothing of a database)

    return is_driven(sweep, now or datetime.now(UTC)) and not is_dead(sweep)


def is_dead(sweep: "Sweep") -> bool:
    """Whether the sweep's driver is known to be gone; where this is not known its silence decides.

    Known it is of a driver on this machine, since its last start, and in this PID namespace: others are not seen here.
    """
    if sweep.driver_id is None or sweep.driver_pid is None or sweep.driver_host != socket.gethostname():
        return False
    ticks, _, world = sweep.driver_id.rpartition("@")[2].partition("/")
    if not world or world != _world():  # ids of older versions hold a time of day here
        return False
    return _ticks(sweep.driver_pid) not in (ticks, None)


def _ticks(pid: int) -> str | None:
    """Return when a process was started, in the kernel's ticks since its own start; "" of one that is gone.

    A time of day would move with each correction of the clock. None of one that is there but cannot be looked at.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        try:
            os.kill(pid, 0)  # /proc may hide the processes of other users
        except ProcessLookupError:
            return ""
        except PermissionError:
            return None
        return None
    return "" if fields[0] in ("Z", "X") else fields[19]  # fields 3 and 22 of proc(5)


def _world() -> str:
    """Return the start of this machine and the PID namespace within which a process is known by number and ticks."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    return ""
