"""The driver's book of leases: which trial has which worker, and who goes when another needs room."""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from runner.ports.executor import Work
from runner.sweep.on_ray.known_workers import KnownWorker
from runner.sweep.on_ray.placing import Footprint, Place

_TRIES = 2  # a lease that no worker took is opened so often: the worker that Tune kept for it may have died unnoticed


@dataclass
class Lease:
    """Segments of one trial, one after the other, on one worker."""

    name: str
    trial: int
    place: Place
    used: int  # order in which leases were last given a segment
    work: Work | None  # the segment under way
    waits_since: float  # by the driver's clock: when it was opened, or room was last made for it
    worker: KnownWorker | None = None
    closing: bool = False
    asked_at: float = 0.0  # by the driver's clock: when it was given its segment
    begun: bool = False  # whether a worker has said anything of it
    lost: dict[str, Any] | None = None  # how Ray reported its end, while its worker may still be writing
    tries: int = 1

    @property
    def parked(self) -> bool:
        """Whether it waits for its next segment."""
        return self.work is None and not self.closing

    def can_give(self, footprint: Footprint, unwanted: Collection[str]) -> bool:
        """Whether its worker can serve another trial that may not run on some nodes."""
        on = self.worker.nodes if self.worker is not None else ()
        return self.place.footprint == footprint and not set(on) & set(unwanted)


@dataclass
class Leases:
    """All leases that are not over."""

    leases: dict[str, Lease] = field(default_factory=dict)
    workers: dict[str, KnownWorker] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: count(1))

    @property
    def under_way(self) -> list[Lease]:
        """Those with a segment."""
        return [lease for lease in self.leases.values() if lease.work is not None]

    @property
    def new_places(self) -> list[Place]:
        """The places of leases whose worker is not known yet."""
        return [lease.place for lease in self.under_way if lease.worker is None]

    def of_segment(self, segment: int) -> Lease | None:
        """Return the lease under which a segment is under way."""
        return next((lease for lease in self.under_way if lease.work and lease.work.segment == segment), None)

    def parked_of(self, work: Work) -> Lease | None:
        """Return the parked lease that can go on with a trial."""
        wanted = (work.trial, Footprint.of(work))
        parked = (one for one in self.leases.values() if one.parked)
        return next((one for one in parked if (one.trial, one.place.footprint) == wanted), None)

    def grant(self, lease: Lease, work: Work, now: float) -> None:
        """Give a parked lease its next segment."""
        lease.work, lease.used = work, next(self._numbers)
        lease.asked_at, lease.begun = now, False

    def open(self, work: Work, place: Place, now: float) -> Lease:
        """Return a new lease with its first segment."""
        number = next(self._numbers)
        lease = Lease(f"{number}-trial-{work.trial}", work.trial, place, number, work, now, asked_at=now)
        self.leases[lease.name] = lease
        return lease

    def asked_again(self, now: float) -> None:
        """Note that Ray hears of all of them only now."""
        for lease in self.leases.values():
            lease.asked_at = now

    def reopen(self, lease: Lease, now: float) -> bool:
        """Whether a lease that no worker has taken may be opened once more."""
        lease.tries, lease.asked_at = lease.tries + 1, now
        return lease.worker is None and lease.work is not None and lease.tries <= _TRIES

    def to_end(self) -> list[Lease]:
        """Return the parked leases, the least recently used first."""
        return sorted((lease for lease in self.leases.values() if lease.parked), key=lambda one: one.used)

    def to_end_for(self, footprint: Footprint, unwanted: Collection[str]) -> Lease | None:
        """Return the first of them whose worker fits a new lease and is on no unwanted node, or else the first."""
        parked = self.to_end()
        return next((one for one in parked if one.can_give(footprint, unwanted)), parked[0] if parked else None)

    def forgotten(self, before: float) -> list[Lease]:
        """Return the leases whose segment was given to Ray before that, and that no worker has taken."""
        return [lease for lease in self.under_way if not (lease.begun or lease.lost) and lease.asked_at < before]

    def holders(self) -> list[Lease]:
        """Return the leases that hold a worker, or wait for one."""
        return [lease for lease in self.leases.values() if not lease.closing]

    def spare(self) -> list[KnownWorker]:
        """Return the workers without a segment, save those that a lease which waits for a worker may be given."""
        promised = any(lease.worker is None for lease in self.under_way)
        return [
            worker
            for worker in self.workers.values()
            if (worker.lease is not None and worker.lease.parked)
            or (not promised and (worker.lease is None or worker.lease.work is None))
        ]

    def hear(self, message: dict[str, Any], now: float) -> KnownWorker:
        """Note a sign of life of a worker, and which lease it serves."""
        name = message["worker"]
        worker = self.workers.get(name)
        lease = self.leases[message["lease"]]
        if worker is None:
            place = (message["host"], message["pid"], message["node"], tuple(message["nodes"]), lease.place.footprint)
            worker = self.workers[name] = KnownWorker(name, *place, 0.0, now)
        worker.seconds, worker.heard_at = max(worker.seconds, message["worker_seconds"]), now
        lease.worker, worker.lease, lease.begun = worker, lease, True
        return worker

    def clear(self) -> None:
        """Strike out all leases and workers."""
        self.leases.clear()
        self.workers.clear()

    def close(self, name: str) -> None:
        """Strike out a lease that is over; its worker may serve another."""
        lease = self.leases.pop(name, None)
        if lease is not None and lease.worker is not None and lease.worker.lease is lease:
            lease.worker.lease = None
