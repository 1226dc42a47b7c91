"""What a worker of Ray's does: it trains the segments that it is given, listens meanwhile, and ends in time."""

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ray

from runner.ports.executor import Event, Work
from runner.processes import DRIVER_TAG, SWEEP_TAG, WORKER_TAG, adopt_orphans, sweep_after_death, sweep_orphans
from runner.sweep.tune.cluster import nodes_of_this_process
from runner.sweep.tune.messages import Message, RayStart
from runner.sweep.worker import Worker
from runner.sweep.worker_records import Heartbeat, WorkerLife

_SILENT = 20  # seconds without a sign after which a worker takes itself for cut off
_DRIVER_SILENT = 60.0  # seconds after which its driver, though its session gives signs, is dead or frozen
_LONGEST_FAREWELL = 5.0
_FREE = 0.05  # share of a GPU's memory that a driver takes for itself
_LONGEST_WAIT = 60.0


class Watchdog:
    """Ends a worker that its driver cannot reach: when what is paid for is used up, without a segment at once.

    Until then it trains: the way may be whole again soon, and what it makes is saved. Nobody else could end it: its
    host lives, and only the way to it is cut. Silence is counted by ticks of its own, so that a process that was
    stopped for a while does not take itself for cut off.
    """

    def __init__(self, seconds: Callable[[], float], end: Callable[[], None], tick: float = 1.0) -> None:
        """`seconds` is how long the worker has lived."""
        self._seconds, self._end, self._tick = seconds, end, tick
        self._silent_ticks, self._driver_silent = 0, 0.0
        self._paid_until = 0.0

    def heard(self, driver_silent: float = 0.0) -> None:
        """Note a sign from where messages come from, and for how long the driver was not heard of there."""
        self._silent_ticks, self._driver_silent = 0, driver_silent

    def paid_until(self, seconds: float) -> None:
        """Say at which age what is paid for is used up."""
        self._paid_until = seconds

    def watch(self) -> None:
        """Return once the worker has to end, and has been told to."""
        while self._seconds() < self._paid_until or (
            self._silent_ticks < _SILENT and self._driver_silent < _DRIVER_SILENT
        ):
            time.sleep(self._tick)
            self._silent_ticks += 1
        self._end()


class WorkerProcess:
    """Trains in a thread of its own, so that Ray's calls never hold the training up."""

    def __init__(self, start: RayStart, post: Callable[[Message], None]) -> None:
        """Begin to live, and to listen; `post` passes on what is said."""
        self._life = WorkerLife()
        node = ray.get_runtime_context().get_node_id()
        self._place = {"node": node, "nodes": nodes_of_this_process() or [node]}
        self._place |= {"host": self._life.host, "pid": os.getpid()}
        self._tag, self._post_message = start.tag, post
        # Whatever the training starts can be found by these, on whichever machine it is.
        os.environ.update({SWEEP_TAG: self._tag, DRIVER_TAG: start.driver, WORKER_TAG: self._life.name})
        if os.path.isdir(start.directory):
            os.chdir(start.directory)
        self._heartbeat = Heartbeat(self._life, Path(start.folder))
        self._watchdog = Watchdog(self._life.seconds, self._leave)
        self._worker = Worker(self._life.name, self._life.seconds, self._post)
        self._inbox: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._granted: set[int] = set()  # segments
        self._stopping: set[int] = set()
        self._segment: int | None = None  # under way
        self._paid_seconds = 0.0  # of its life, in segments that are over
        self._gpus_are_ours = False
        self._guard: Any = None
        for name, target in (("training", self._train), ("watchdog", self._watchdog.watch)):
            threading.Thread(target=target, name=name, daemon=True).start()

    def hear(self, driver_silent: float) -> None:
        """Hear that the session lives, and for how long it has not heard of the driver."""
        self._watchdog.heard(driver_silent)

    def tell(self, command: Message) -> None:
        """Obey the driver."""
        match command["do"]:
            case "grant" if command["work"].segment not in self._granted:  # which may come twice
                self._granted.add(command["work"].segment)
                self._inbox.put(command["work"])
            case "extend" if command["segment"] == self._segment:
                self._watchdog.paid_until(self._paid_seconds + command["reserved_seconds"])
            case "stop":
                self._stopping.add(command["segment"])

    def end(self) -> None:
        """End what the training has left behind, and write the last sign of life: the trial is handed out after it."""
        sweep_orphans(self._tag, self._life.name)
        self._heartbeat.end()

    def _leave(self) -> None:
        """End this process; storage that is cut off too must not hold it."""
        sys.setswitchinterval(1e-4)  # seconds: training that never waits leaves the farewell its turns
        farewell = threading.Thread(target=self.end, daemon=True)
        farewell.start()
        farewell.join(_LONGEST_FAREWELL)
        os._exit(0)

    def _train(self) -> None:
        """Execute segments as they come."""
        while True:
            work = self._inbox.get()
            self._heartbeat.holds(work.segment, work.slots)
            if self._guard is None and work.config.get("trainer"):  # which starts processes that may outlive this one
                self._guard = sweep_after_death(self._tag, self._life.name)
                adopt_orphans()  # after that: the guard must be no child of this process
            self._watchdog.paid_until(self._paid_seconds + work.reserved_seconds)
            self._segment = work.segment
            if not self._gpus_are_ours:
                wait_until_free(work.gpus)
                self._gpus_are_ours = True
            self._worker.run(work, partial(self._stopping.__contains__, work.segment))
            self._segment = None
            self._paid_seconds = self._life.seconds()
            self._watchdog.paid_until(self._paid_seconds)
            self._heartbeat.holds(None, work.slots)

    def _post(self, event: Event) -> None:
        self._post_message({"event": "said", "said": event, **self._place})


def wait_until_free(gpus: float) -> None:
    """Wait until the memory of a dead process's GPUs is free, for a while: what is then missing is no memory.

    Only whole GPUs are looked at, since a part of one has neighbours whose memory is in use rightly.
    """
    ids = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if gpus < 1 or not ids:
        return
    end = time.monotonic() + _LONGEST_WAIT
    while any(share > _FREE for share in _shares_in_use(ids)) and time.monotonic() < end:
        time.sleep(1.0)


def _shares_in_use(ids: str) -> list[float]:
    query = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits", "-i", ids]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        rows = [line.split(",") for line in answer.stdout.splitlines()]
        return [float(used) / float(total) for used, total in rows]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []  # nothing can be known, so nothing is waited for
