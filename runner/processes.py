"""The processes of a sweep: which one drives it, and those that outlived their worker, found by a tag and ended."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
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
_PATIENCE = 0.5  # seconds from asking to killing
_LONGEST = 10.0  # seconds after which what cannot be killed, such as a process stuck in a driver, is left


def sweep_orphans(tag: str, worker: str | None = None, *, driver: str | None = None) -> int:
    """End every process of this user that carries a sweep's tag, or one worker's or driver's; return how many.

    All of a sweep's are for who holds its lease. The caller itself is spared. Where there is no /proc nothing is found.
    """
    values = {SWEEP_TAG: tag, WORKER_TAG: worker, DRIVER_TAG: driver}
    wanted = {f"{name}={value}" for name, value in values.items() if value is not None}
    return _end(lambda: tagged(wanted), _PATIENCE)


def sweep_after_death(tag: str, worker: str) -> "subprocess.Popen[bytes]":
    """Have what carries a worker's tags ended when this process is gone, however that comes: by a process of its own.

    It waits for the end of a pipe whose other end is held here, as long as what is returned is; and it is no child of
    this process, since Ray kills a dead worker's children first.
    """
    guard = subprocess.Popen(
        [sys.executable, "-c", _GUARD, str(Path(__file__).resolve().parents[1]), tag, worker],
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
    return _end(lambda: in_session(session), 0.0)


def _end(living: Callable[[], set[int]], patience: float) -> int:
    """Ask processes to end for a while, then kill them, until none of them is there or none can be killed."""
    found: set[int] = set()
    began = time.monotonic()
    while (left := living()) and (waited := time.monotonic() - began) <= _LONGEST:
        found |= left
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM if waited < patience else signal.SIGKILL)
        time.sleep(0.03)
    return len(found)


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
    found = set()
    for pid, text in _read("stat"):
        state, _, _, its_session = text.rpartition(b")")[2].split()[:4]
        if int(its_session) == session and state not in (b"Z", b"X"):
            found.add(pid)
    return found


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
