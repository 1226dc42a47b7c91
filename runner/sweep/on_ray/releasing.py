"""Ends workers in good order: those that nobody needs, those in another's way, and all of them at the end."""

import time
from collections.abc import Callable, Collection

from runner.ports.executor import Clock
from runner.sweep.on_ray.known_workers import Records
from runner.sweep.on_ray.leases import Leases
from runner.sweep.on_ray.losses import NOT_NEEDED
from runner.sweep.on_ray.messages import Message

_ROOM_AFTER = 5.0  # seconds that a lease waits for a worker before a parked one has to go
_LAST_WORDS = 5.0  # that workers have for them, which a worker itself gives its farewell
_SECONDS_BETWEEN_LOOKS = 0.05


class Releasing:
    """Says to workers that their time is over; what ends otherwise is a loss."""

    def __init__(self, clock: Clock, leases: Leases, records: Records, send: Callable[[Message], None]) -> None:
        self._clock, self._leases, self._records, self._send = clock, leases, records, send

    def spare(self) -> None:
        """End the workers that hold no segment."""
        for worker in self._leases.spare():
            self._release(worker.name)
            worker.ended_because = NOT_NEEDED
            if worker.lease is not None:
                worker.lease.closing = True

    def uncalled(self, worker: str) -> None:
        """End a worker that takes a lease which was taken back: another has its trial."""
        self._release(worker)

    def without_nodes(self, alive: Collection[str], host_of: Callable[[str], str]) -> None:
        """End the workers that have lost a node of theirs; of one whose own node is dead Ray tells by itself."""
        for worker in self._leases.workers.values():
            dead = sorted({host_of(node) for node in worker.nodes if node not in alive})
            if dead and worker.node in alive and worker.ended_because is None:
                worker.ended_because = f"of its nodes {', '.join(dead)} is gone"
                self._release(worker.name)

    def for_those_who_wait(self, now: float) -> None:
        """End parked leases where others have waited for a worker: they may hold what these need."""
        for lease in self._leases.under_way:
            if lease.worker is None and now - lease.waits_since > _ROOM_AFTER:
                lease.waits_since = now
                for parked in self._leases.to_end()[: lease.place.footprint.parts]:
                    parked.closing = True
                    self._send({"do": "end", "lease": parked.name})

    def all_of_them(self) -> None:
        """Have workers write their last word: a cluster that lives on ends them in its own time, which nobody sees."""
        left = list(self._leases.workers.values())
        for worker in left:
            self._release(worker.name)
        end = self._clock.seconds() + _LAST_WORDS
        while (left := self._records.unended(left, self._clock.seconds())) and self._clock.seconds() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _release(self, worker: str) -> None:
        self._send({"do": "release", "worker": worker})
