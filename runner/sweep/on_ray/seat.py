"""What a Ray process does for the leases that it serves one after the other: trains, listens, and tells its age."""

import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.ports.executor import Event, Work
from runner.sweep import lives
from runner.sweep.on_ray.gpus import wait_until_free
from runner.sweep.on_ray.grants import NAMESPACE
from runner.sweep.on_ray.heartbeat import Heartbeat, Life
from runner.sweep.on_ray.messages import Message, message_of, work_of
from runner.sweep.orphans import SWEEP_TAG, WORKER_TAG, sweep_orphans
from runner.sweep.worker import Worker

_SECONDS_OF_A_CALL = 30.0


class Seat:
    """One per process. Trains in a thread of its own, so that Ray's calls never hold the training up."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config` is that of the first lease; tag, folder and letter box are the same for all."""
        import ray  # noqa: PLC0415

        self._life = Life()
        self._node = ray.get_runtime_context().get_node_id()
        self._tag = config["tag"]
        # Whatever the training starts can be found by these, on whichever machine it is.
        os.environ[SWEEP_TAG], os.environ[WORKER_TAG] = self._tag, self._life.name
        self._directory = config["directory"]
        self._heartbeat = Heartbeat(self._life, Path(config["folder"]) / lives.FOLDER)
        self._grants = ray.get_actor(config["grants"], namespace=NAMESPACE)
        self._worker = Worker(self._life.name, self._life.seconds, self._post)
        self._inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._stopping: set[int] = set()
        self._lease = ""
        self._gpus_are_ours = False
        threading.Thread(target=self._train, name="training", daemon=True).start()
        threading.Thread(target=self._wait_for_release, name="release", daemon=True).start()

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
        """Write the last sign of life, and end what the training has left behind."""
        self._heartbeat.end()
        sweep_orphans(self._tag, self._life.name)

    def _listen(self, lease: str) -> None:
        """Fetch a lease's messages until it is over."""
        import ray  # noqa: PLC0415

        while True:
            for message in ray.get(self._grants.fetch.remote(lease, _SECONDS_OF_A_CALL)):
                if message["do"] == "grant":
                    self._inbox.put(work_of(message["work"]))
                elif message["do"] == "stop":
                    self._stopping.add(message["segment"])
                else:
                    self._inbox.put(None)
                    return
            if self._lease != lease:
                return

    def _wait_for_release(self) -> None:
        """End this process when the driver has nothing more for it; Ray takes that for a death, which costs nothing."""
        import ray  # noqa: PLC0415

        while not ray.get(self._grants.fetch.remote(self._life.name, _SECONDS_OF_A_CALL)):
            pass
        self.end()
        os._exit(0)

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
        if not self._gpus_are_ours:
            wait_until_free(work.gpus)
            self._gpus_are_ours = True
        goes_on = self._worker.run(work, lambda: work.segment in self._stopping)
        self._stopping.discard(work.segment)
        self._heartbeat.holds(None, work.slots)
        return goes_on

    def _over(self) -> None:
        lease, self._lease = self._lease, ""
        self._outbox.put({"event": "over", "lease": lease})

    def _post(self, event: Event) -> None:
        self._outbox.put({**message_of(event), "host": self._life.host, "pid": os.getpid(), "node": self._node})
