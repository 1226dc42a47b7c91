"""How workers end: those that nobody needs are told to, and what is lost is reported, charged, and cleared up after."""

import math
import time
from collections.abc import Callable, Collection

from runner.ports.executor import Clock, Event, Failed, Gone
from runner.processes import sweep_orphans
from runner.sweep.on_ray.known_workers import KnownWorker, Records
from runner.sweep.on_ray.leases import Lease, Leases
from runner.sweep.on_ray.messages import Message

NOT_NEEDED = "it was no longer needed"
_ROOM_AFTER = 5.0  # seconds that a lease waits for a worker before a parked one has to go
_LAST_WORDS = 5.0  # that workers have for them, which a worker itself gives its farewell
_SECONDS_BETWEEN_LOOKS = 0.05


class Endings:
    """Ends workers in good order, strikes out leases and workers that are over, and says what became of them."""

    def __init__(
        self,
        tag: str,
        clock: Clock,
        leases: Leases,
        records: Records,
        events: list[Event],
        alive: Callable[[], Collection[str]],
        send: Callable[[Message], None],
    ) -> None:
        """Add to the events; `alive` returns the nodes that live, `send` speaks to the process that runs Ray."""
        self._tag, self._clock = tag, clock
        self._leases, self._records, self._events = leases, records, events
        self._alive, self._send = alive, send

    def release_spare(self) -> None:
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

    def all_in_good_order(self) -> None:
        """Have workers write their last word: a cluster that lives on ends them in its own time, which nobody sees."""
        left = list(self._leases.workers.values())
        for worker in left:
            self._release(worker.name)
        end = self._clock.seconds() + _LAST_WORDS
        while (left := self._records.unended(left, self._clock.seconds())) and self._clock.seconds() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def look(self, now: float) -> None:
        """Report the workers whose records say that they have ended, or that are silent for too long."""
        for worker in self._records.ended(self._leases.workers.values(), now):
            if worker.lease is not None and worker.lease.lost is not None:
                self.of_lease(worker.lease, worker.lease.lost)
            else:
                self._of_worker(worker, NOT_NEEDED)

    def broken(self, lease: Lease, message: Message) -> None:
        """Report a lease that Ray calls over; one whose worker may be cut off and train on waits for its record."""
        if lease.work is not None and lease.worker is not None and not lease.worker.is_here:
            lease.lost = message
        else:
            self.of_lease(lease, message)

    def forgotten(self, now: float, start_seconds: float) -> None:
        """Take leases back that no worker has taken for so long: Ray loses some with a node."""
        reason = f"no worker has taken it within {start_seconds:g} s ([cluster] start_seconds)"
        for lease in self._leases.forgotten(now - start_seconds):
            self._send({"do": "recall", "lease": lease.name})
            self.of_lease(lease, {"kind": "lost", "reason": reason})

    def of_lease(self, lease: Lease, message: Message) -> None:
        """Report a lease with its segment and its worker; the message has the kind of the failure, and the reason."""
        ours = lease.worker.ended_because if lease.worker is not None else None
        reason = ours or (NOT_NEEDED if lease.closing else message["reason"])
        self._fail(lease, message["kind"], reason)
        self._leases.close(lease.name)
        if lease.worker is not None:
            self._of_worker(lease.worker, reason)

    def of_all(self, reason: str) -> None:
        """Report everything under way as lost, and every worker as gone."""
        for lease in list(self._leases.leases.values()):
            self._fail(lease, "lost", reason)
        self._events += [Gone(one.name, self._lived(one), reason) for one in self._leases.workers.values()]
        self._leases.clear()

    def _fail(self, lease: Lease, kind: str, reason: str) -> None:
        worker, work = lease.worker, lease.work
        if work is None:
            return
        seconds = self._lived(worker, work.reserved_seconds) if worker is not None else 0.0
        self._events.append(Failed(work.segment, worker.name if worker is not None else None, seconds, kind, reason))
        lease.work = None

    def _of_worker(self, worker: KnownWorker, reason: str) -> None:
        del self._leases.workers[worker.name]
        self._events.append(Gone(worker.name, self._lived(worker), reason))
        if worker.is_here:
            sweep_orphans(self._tag, worker.name)
        alive = self._alive()
        if there := [[worker.name, node] for node in worker.remote_nodes if node in alive]:
            self._send({"do": "sweep", "workers": there})

    def _lived(self, worker: KnownWorker, most_seconds: float = math.inf) -> float:
        now = self._clock.seconds()
        self._records.read(worker, now)
        return worker.lived(now, most_seconds)

    def _release(self, worker: str) -> None:
        self._send({"do": "release", "worker": worker})
