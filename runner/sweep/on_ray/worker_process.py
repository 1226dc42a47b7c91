"""What a Ray process does for the leases that it serves one after the other: trains, listens, and ends in time."""

import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runner.ports.executor import Event, Work
from runner.processes import DRIVER_TAG, SWEEP_TAG, WORKER_TAG, adopt_orphans, sweep_after_death, sweep_orphans
from runner.sweep.on_ray.cluster import nodes_of_this_process
from runner.sweep.on_ray.messages import NAMESPACE, Message, message_of
from runner.sweep.worker import Worker
from runner.sweep.worker_records import Heartbeat, WorkerLife

_SECONDS_OF_A_CALL = 5.0  # of waiting for a message; each answer shows that the driver is there
_SECONDS_BETWEEN_TRIES = 1.0
_SILENT = 20  # seconds without an answer after which a worker takes itself for cut off
_DRIVER_SILENT = 60.0  # seconds after which its driver, though its mailbox answers, is dead or frozen
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
        self._deaf = False
        self._paid_until = 0.0

    def heard(self, driver_silent: float = 0.0) -> None:
        """Note an answer from where messages come from, and for how long the driver was not heard of there."""
        self._silent_ticks, self._driver_silent = 0, driver_silent

    def deaf(self) -> None:
        """Note that a message may be lost, and that no more is waited for."""
        self._deaf = True

    def paid_until(self, seconds: float) -> None:
        """Say at which age what is paid for is used up."""
        self._paid_until = seconds

    def watch(self) -> None:
        """Return once the worker has to end, and has been told to."""
        while not self._is_cut():
            time.sleep(self._tick)
            self._silent_ticks += 1
        self._end()

    def _is_cut(self) -> bool:
        cut = self._deaf or self._silent_ticks >= _SILENT or self._driver_silent >= _DRIVER_SILENT
        return self._seconds() >= self._paid_until and cut


class WorkerProcess:
    """One per process. Trains in a thread of its own, so that Ray's calls never hold the training up."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config` is that of the first lease; tag, folder and mailbox are the same for all."""
        import ray  # noqa: PLC0415

        self._life = WorkerLife()
        self._node = ray.get_runtime_context().get_node_id()
        self._nodes = nodes_of_this_process() or [self._node]
        self._tag = config["tag"]
        # Whatever the training starts can be found by these, on whichever machine it is.
        os.environ.update({SWEEP_TAG: self._tag, DRIVER_TAG: config["driver"], WORKER_TAG: self._life.name})
        self._directory = config["directory"]
        self._heartbeat = Heartbeat(self._life, Path(config["folder"]))
        self._watchdog = Watchdog(self._life.seconds, self._leave)
        self._mailbox = ray.get_actor(config["mailbox"], namespace=NAMESPACE)
        self._worker = Worker(self._life.name, self._life.seconds, self._post)
        self._inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._stopping: set[int] = set()
        self._numbers: dict[str, int] = {}  # the number of the last message, by box
        self._lease = ""
        self._segment: int | None = None  # under way
        self._paid_seconds = 0.0  # of its life, in segments that are over
        self._gpus_are_ours = False
        self._guard: Any = None
        for name, target in (("training", self._train), ("release", self._wait_for_release)):
            threading.Thread(target=target, name=name, daemon=True).start()
        threading.Thread(target=self._watchdog.watch, name="lifeline", daemon=True).start()

    def begin(self, lease: str) -> None:
        """Serve a lease, until it ends by the driver's word or by a failure."""
        if os.path.isdir(self._directory):
            os.chdir(self._directory)  # Tune goes elsewhere with each lease
        self._lease = lease
        threading.Thread(target=self._listen, args=(lease,), name=f"lease {lease}", daemon=True).start()

    def news(self) -> list[Message]:
        """Return what has happened since the last call, waiting for something; a lease's last message is `over`."""
        messages = [self._outbox.get()]
        while not self._outbox.empty():
            messages.append(self._outbox.get())
        return messages

    def end(self) -> None:
        """End what the training has left behind, and write the last sign of life: the trial is handed out after it."""
        sweep_orphans(self._tag, self._life.name)
        self._heartbeat.end()

    def _leave(self) -> None:
        """End this process; storage that is cut off too must not hold it."""
        farewell = threading.Thread(target=self.end, daemon=True)
        farewell.start()
        farewell.join(_LONGEST_FAREWELL)
        os._exit(0)

    def _fetch(self, box: str) -> list[Message]:
        """Return the new messages in a box, after a few seconds none; a way that is cut may be whole again soon."""
        import ray  # noqa: PLC0415

        while True:
            try:
                call = self._mailbox.fetch.remote(box, self._numbers.get(box, 0), _SECONDS_OF_A_CALL)
                driver_silent, messages = ray.get(call)
            except (ray.exceptions.ActorDiedError, ray.exceptions.RayTaskError):
                self._watchdog.deaf()
                raise
            except ray.exceptions.RayError:
                time.sleep(_SECONDS_BETWEEN_TRIES)
                continue
            self._watchdog.heard(driver_silent)
            self._numbers[box] = max((message["number"] for message in messages), default=self._numbers.get(box, 0))
            return list(messages)

    def _listen(self, lease: str) -> None:
        """Take a lease's messages until it is over."""
        while True:
            for message in self._fetch(lease):
                if message["do"] == "grant":
                    self._inbox.put(Work(**message["work"]))
                elif message["do"] == "extend":
                    if message["segment"] == self._segment:
                        self._watchdog.paid_until(self._paid_seconds + message["reserved_seconds"])
                elif message["do"] == "stop":
                    self._stopping.add(message["segment"])
                else:
                    self._inbox.put(None)
                    return
            if self._lease != lease:
                return

    def _wait_for_release(self) -> None:
        """End this process when the driver has nothing more for it; Ray takes that for a death, which costs nothing."""
        while not self._fetch(self._life.name):
            pass
        self._leave()

    def _train(self) -> None:
        """Execute segments as they come; None ends a lease."""
        while True:
            work = self._inbox.get()
            if work is None:
                self._worker.close()
                self._over()
            elif not self._executed(work):
                self._over()

    def _executed(self, work: Work) -> bool:
        self._heartbeat.holds(work.segment, work.slots)
        if self._guard is None and work.config.get("trainer"):  # which starts processes that may outlive this one
            self._guard = sweep_after_death(self._tag, self._life.name)
            adopt_orphans()  # after that: the guard must be no child of this process
        self._watchdog.paid_until(self._paid_seconds + work.reserved_seconds)
        self._segment = work.segment
        if not self._gpus_are_ours:
            wait_until_free(work.gpus)
            self._gpus_are_ours = True
        goes_on = self._worker.run(work, lambda: work.segment in self._stopping)
        self._segment = None
        self._stopping.discard(work.segment)
        self._paid_seconds = self._life.seconds()
        self._watchdog.paid_until(self._paid_seconds)
        self._heartbeat.holds(None, work.slots)
        return goes_on

    def _over(self) -> None:
        lease, self._lease = self._lease, ""
        self._outbox.put({"event": "over", "lease": lease})

    def _post(self, event: Event) -> None:
        place = {"host": self._life.host, "pid": os.getpid(), "node": self._node, "nodes": self._nodes}
        self._outbox.put({**message_of(event), **place})


def wait_until_free(gpus: float, seconds: float = _LONGEST_WAIT) -> None:
    """Wait until the memory of a dead process's GPUs is free, or so long at most: what is then missing is no memory.

    Only whole GPUs are looked at, since a part of one has neighbours whose memory is in use rightly.
    """
    ids = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if gpus < 1 or not ids:
        return
    end = time.monotonic() + seconds
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
