"""How workers end: those that nobody needs are told to, and what is lost is reported, charged, and cleared up after."""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from runner.ports.executor import Clock, Event, Failed, Gone
from runner.processes import sweep_orphans
from runner.sweep.tune.cluster import Node
from runner.sweep.tune.messages import Message, RayStart
from runner.sweep.tune.workers import RayWorker, Workers

NOT_NEEDED = "it was no longer needed"
_ROOM_AFTER = 5.0  # seconds that a worker is waited for before a parked one has to go
_LAST_WORDS = 5.0  # that workers have for them, which a worker itself gives its farewell
_SECONDS_BETWEEN_LOOKS = 0.05


class Endings:
    """Ends workers in good order, strikes out those that are over, and says what became of them."""

    def __init__(
        self, start: RayStart, clock: Clock, workers: Workers, events: list[Event], send: Callable[[Message], None]
    ) -> None:
        """Add to the events; `send` speaks to the process that runs Ray."""
        self._tag, self._folder, self._clock = start.tag, Path(start.folder), clock
        self._workers, self._events, self._send = workers, events, send
        self._hosts: dict[str, str] = {}  # of the nodes that live

    def release(self, worker: RayWorker, because: str = NOT_NEEDED) -> None:
        """Have a worker end by itself, its last word written; Ray tells when it is gone."""
        worker.ended_because = because
        self._send({"do": "release", "key": worker.key})

    def on_nodes(self, nodes: Iterable[Node]) -> None:
        """End the workers that have lost a node of theirs; of one whose own node is dead Ray tells by itself."""
        before, self._hosts = self._hosts, {node.node: node.host for node in nodes}
        for worker in self._workers.all():
            dead = sorted({before.get(node, node) for node in worker.nodes if node not in self._hosts})
            if dead and worker.node in self._hosts and worker.ended_because is None:
                self.release(worker, f"of its nodes {', '.join(dead)} is gone")

    def for_those_who_wait(self, now: float) -> None:
        """End parked workers where others are waited for: they may hold what these need."""
        for worker in self._workers.under_way():
            if worker.name is None and now - worker.waits_since > _ROOM_AFTER:
                worker.waits_since = now
                for parked in self._workers.parked()[: worker.place.footprint.parts]:
                    self.release(parked)

    def all_in_good_order(self) -> None:
        """Have workers write their last word: a cluster that lives on ends them in its own time, which nobody sees."""
        for worker in self._workers.all():
            self.release(worker)
        end = self._clock.seconds() + _LAST_WORDS
        while any(map(self._may_write, self._workers.all())) and self._clock.seconds() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def look(self, now: float) -> None:
        """Report the workers that Ray calls dead once they write no more."""
        for worker in self._workers.all():
            if worker.lost is not None:
                worker.read(self._folder, now)
                if worker.has_ended(now):
                    self.of(worker, worker.lost)

    def broken(self, worker: RayWorker, message: Message) -> None:
        """Report a worker that Ray calls dead; one that may be cut off and train on waits for its record."""
        if worker.work is not None and worker.name is not None and not worker.is_here:
            worker.lost = message
        else:
            self.of(worker, message)

    def forgotten(self, now: float, start_seconds: float) -> None:
        """Take segments back that no worker has taken for so long: Ray loses some with a node."""
        reason = f"no worker has taken it within {start_seconds:g} s ([cluster] start_seconds)"
        for worker in self._workers.forgotten(now - start_seconds):
            self._send({"do": "recall", "key": worker.key})
            self.of(worker, {"kind": "lost", "reason": reason})

    def of(self, worker: RayWorker, message: Message) -> None:
        """Report a worker's end with that of its segment; the message has the kind of the failure, and the reason."""
        del self._workers.by_key[worker.key]
        self._report(worker, message["kind"], worker.ended_because or message["reason"])
        if worker.name is None:
            return
        if worker.is_here:
            sweep_orphans(self._tag, worker.name)
        if there := [[worker.name, node] for node in worker.remote_nodes if node in self._hosts]:
            self._send({"do": "sweep", "workers": there})

    def of_all(self, reason: str) -> None:
        """Report everything under way as lost, and every worker as gone."""
        for worker in self._workers.all():
            self._report(worker, "lost", reason)
        self._workers.by_key.clear()

    def _report(self, worker: RayWorker, kind: str, reason: str) -> None:
        work = worker.work
        if work is not None:
            seconds = self._lived(worker, work.reserved_seconds)
            self._events.append(Failed(work.segment, worker.name, seconds, kind, reason))
        if worker.name is not None:
            self._events.append(Gone(worker.name, self._lived(worker), reason))

    def _lived(self, worker: RayWorker, most_seconds: float = math.inf) -> float:
        if worker.name is None:
            return 0.0
        now = self._clock.seconds()
        worker.read(self._folder, now)
        return worker.lived(now, most_seconds)

    def _may_write(self, worker: RayWorker) -> bool:
        worker.read(self._folder, self._clock.seconds())
        return not (worker.name is None or worker.over or (worker.is_here and not psutil.pid_exists(worker.pid)))
