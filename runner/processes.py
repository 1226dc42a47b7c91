"""The processes of a sweep: which one drives it, and those that outlived their worker, found and ended.

They are found by a tag in their environment. A program that sets its own title, as Ray's and vLLM's workers do, writes
that over its environment: it is found by its kin, as what descends from one with the tag, or is in a session of its.
"""

import ctypes
import hashlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:  # workers need nothing of a database
    from planner.store.control import Driver
    from planner.store.schema import Sweep


SWEEP_TAG = "RLPLAN_SWEEP"  # in the environment of all that a sweep starts; its value is the sweep's own
DRIVER_TAG = "RLPLAN_DRIVER"  # in that of what one of its drivers starts: another may have taken the sweep over
WORKER_TAG = "RLPLAN_WORKER"  # in that of what one worker starts
_GUARD = """
import os, sys
if os.fork():
    os._exit(0)
root, pid, tag, worker = sys.argv[1:]
sys.path.insert(0, root)
from runner.processes import stand_guard
stand_guard(int(pid), tag, worker)
"""
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 0.5  # seconds from asking to killing
_SECONDS_BETWEEN_LOOKS = 1.0  # of a guard: what was started since the last one and has thrown all off is not known
_LONGEST = 10.0  # seconds after which what cannot be killed, such as a process stuck in a driver, is left
_DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)

_ROOT = str(Path(__file__).resolve().parents[1])  # of our packages

_adopts = False


def search_path() -> str:
    """Return the PYTHONPATH of a process of ours: the packages need not be installed where this one found them."""
    return os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))


def sweep_tag(folder: str) -> str:
    """Return the tag that all processes of the sweep with this folder carry, whoever drives it."""
    return f"rlplan-{hashlib.sha256(folder.encode()).hexdigest()[:12]}"


def sweep_orphans(tag: str, worker: str | None = None, *, driver: str | None = None) -> int:
    """End every process of this user that carries a sweep's tag, or one worker's or driver's; return how many.

    All of a sweep's are for who holds its lease. The caller itself is spared.
    """
    values = {SWEEP_TAG: tag, WORKER_TAG: worker, DRIVER_TAG: driver}
    tags = {f"{name}={value}" for name, value in values.items() if value is not None}
    return end_all(lambda: tagged(tags), _PATIENCE)


def kill_worker(tag: str, worker: str, pid: int) -> int:
    """Kill a worker, which is a process of Ray's on this machine, and all that it has started; return how many."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if " ".join(process.cmdline()).startswith("ray::"):  # else its number is another's by now
            process.kill()
    return sweep_orphans(tag, worker)


def sweep_after_death(tag: str, worker: str) -> "subprocess.Popen[bytes]":
    """Have what carries a worker's tags ended when this process is gone, however that comes: by a process of its own.

    It waits for the end of a pipe whose other end is held here, as long as what is returned is; and it is no child of
    this process, since Ray kills a dead worker's children first. Nor has it the tags: who ends the sweep would end it
    before it has ended what only it knows.
    """
    guard = subprocess.Popen(
        [sys.executable, "-c", _GUARD, _ROOT, str(os.getpid()), tag, worker],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name not in (SWEEP_TAG, DRIVER_TAG, WORKER_TAG)},
        start_new_session=True,
    )
    guard.wait()  # for its fork
    return guard


def stand_guard(pid: int, tag: str, worker: str) -> None:
    """Wait for the end of the standard input, then end what carries a worker's tags, or was seen to descend from it.

    What a worker that adopts orphans has started descends from it for as long as it lives, whatever it has thrown off.
    """
    started: set[psutil.Process] = set()
    while not select.select([sys.stdin], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
        with suppress(psutil.Error):
            descendants = psutil.Process(pid).children(recursive=True)
            started = {process for process in started if process.is_running()}.union(descendants)
    tags = {f"{SWEEP_TAG}={tag}", f"{WORKER_TAG}={worker}"}
    end_all(lambda: tagged(tags) | {process.pid for process in started if process.is_running()}, _PATIENCE)


def end_session(session: int) -> int:
    """Kill every process of a terminal session at once, without the caller, and return how many there were.

    Ray's agents write over their own environment, where the tag is, but they stay in the session of who started Ray.
    """
    return end_all(lambda: in_session(session), 0.0)


def end_all(living: Callable[[], set[int]], patience: float) -> int:
    """Ask processes and their kin to end for a while, then kill them; return how many there were."""
    ended: set[psutil.Process] = set()
    began = time.monotonic()
    while (waited := time.monotonic() - began) <= _LONGEST:
        above = _living()
        kin, size = living() | {process.pid for process in ended if process.is_running()}, 0
        while len(kin) > size:
            size = len(kin)
            kin |= {process.pid for process, pids in above.items() if kin.intersection(pids)}
        alive = {process for process in above if process.pid in kin}
        if not alive:
            break
        ended |= alive
        for process in alive:
            with suppress(psutil.Error):
                process.send_signal(signal.SIGTERM if waited < patience else signal.SIGKILL)
        time.sleep(0.03)
    return len(ended)


def _living() -> dict[psutil.Process, tuple[int, int]]:
    """Return the living processes of this user, without the caller, each with its parent and its session."""
    above: dict[psutil.Process, tuple[int, int]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError), process.oneshot():  # it has ended, or is hidden
            ours = process.pid != os.getpid() and process.uids().effective == os.geteuid()
            if ours and process.status() not in _DEAD:
                above[process] = process.ppid(), os.getsid(process.pid)
    return above


def in_session(session: int) -> set[int]:
    """Return the living processes of this user, without the caller, that belong to a session."""
    return {process.pid for process, (_, group) in _living().items() if group == session}


def tagged(wanted: set[str]) -> set[int]:
    """Return the processes of this user, without the caller, whose environment holds all of `NAME=value`."""
    pairs = {tuple(pair.split("=", 1)) for pair in wanted}
    pids: set[int] = set()
    for process in _living():
        with suppress(psutil.Error, OSError):
            if pairs <= process.environ().items():
                pids.add(process.pid)
    return pids


def adopt_orphans() -> None:
    """Become the parent of whatever this process's descendants leave behind, where the kernel can do that."""
    global _adopts  # noqa: PLW0603 (as the kernel's, it is the process's)
    if sys.platform == "linux":
        _adopts = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def adopted(started: set[int]) -> set[int]:
    """Return the living children that this process has not started but adopted, and take leave of dead ones.

    Whatever it starts in another session is in `started`, or has a sweep's tag.
    """
    orphans: set[int] = set()
    for child in psutil.Process().children() if _adopts else ():
        with suppress(psutil.Error, OSError):
            if child.pid in started or os.getsid(child.pid) == os.getsid(0):
                continue
            if child.status() in _DEAD:
                os.waitpid(child.pid, os.WNOHANG)
            elif SWEEP_TAG not in child.environ():
                orphans.add(child.pid)
    return orphans


def this_driver() -> "Driver":
    """Return this process as a driver; the id holds its birth, since process numbers are used again."""
    from planner.store.control import Driver  # noqa: PLC0415

    return Driver(f"{uuid.uuid4().hex}@{_birth(os.getpid())}/{_world()}", socket.gethostname(), os.getpid())


def has_driver(sweep: "Sweep", now: datetime | None = None) -> bool:
    """Whether somebody drives a sweep: its driver's process lives, or was heard of lately where none can be seen."""
    from planner.store.control import is_driven  # noqa: PLC0415 (workers need nothing of a database)

    return is_driven(sweep, now or datetime.now(UTC), lives=driver_lives(sweep))


def driver_lives(sweep: "Sweep") -> bool | None:
    """Whether the process of a sweep's driver is there; None where this is not known, and its silence decides.

    Known it is of a driver on this machine, since its last start, and in this PID namespace: others are not seen here.
    """
    if sweep.driver_id is None or sweep.driver_pid is None or sweep.driver_host != socket.gethostname():
        return None
    birth, _, world = sweep.driver_id.rpartition("@")[2].partition("/")
    if world != _world():
        return None
    try:
        os.kill(sweep.driver_pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's, which the system may hide
        return None
    return _birth(sweep.driver_pid) == birth


def _birth(pid: int) -> str:
    """Return when a process was started, in hundredths of a second since the machine was; "" of one that is gone.

    A time of day would move with each correction of the clock.
    """
    start = psutil.boot_time()  # of the machine; before the process, which has older versions of psutil remember it
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() not in _DEAD:
            return str(round(100 * (process.create_time() - start)))
    return ""


def _world() -> str:
    """Return the start of this machine and the PID namespace within which a process is known by number and birth."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    return ""
