"""The driver's book of leases and of the workers that it knows: pure bookkeeping, without Ray and without a clock."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from runner.ports.executor import Work

Bundles = tuple[dict[str, float], ...]  # what each process of a lease occupies, the worker's own first

_TRIES = 2  # a lease that no worker took is opened so often: the worker that Tune kept for it may have died unnoticed


@dataclass
class KnownWorker:
    """A worker process as it was last heard of."""

    name: str
    host: str
    pid: int
    node: str
    seconds: float  # of its life, when it was last heard of
    heard_at: float  # by the driver's clock
    lease: "Lease | None" = None
    heard_by_file: float = 0.0  # by the driver's clock: when its file last showed more seconds

    def seconds_at(self, now: float) -> float:
        """Return how long it has lived if it lives still."""
        return self.seconds + max(0.0, now - self.heard_at)


@dataclass
class Lease:
    """Segments of one trial, one after the other, on one worker."""

    name: str
    trial: int
    bundles: Bundles
    used: int  # order in which leases were last given a segment
    work: Work | None  # the segment under way
    waits_since: float  # by the driver's clock: when it was opened, or room was last made for it
    worker: KnownWorker | None = None
    closing: bool = False
    tries: int = 1

    @property
    def parked(self) -> bool:
        """Whether it waits for its next segment."""
        return self.work is None and not self.closing


@dataclass
class Book:
    """All leases that are not over."""

    leases: dict[str, Lease] = field(default_factory=dict)
    workers: dict[str, KnownWorker] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: count(1))

    @property
    def under_way(self) -> list[Lease]:
        """Those with a segment."""
        return [lease for lease in self.leases.values() if lease.work is not None]

    def of_segment(self, segment: int) -> Lease | None:
        """Return the lease under which a segment is under way."""
        return next((lease for lease in self.under_way if lease.work and lease.work.segment == segment), None)

    def parked_of(self, work: Work) -> Lease | None:
        """Return the parked lease that can go on with a trial."""
        wanted = (work.trial, bundles_of(work))
        return next((one for one in self.leases.values() if one.parked and (one.trial, one.bundles) == wanted), None)

    def grant(self, lease: Lease, work: Work) -> None:
        """Give a parked lease its next segment."""
        lease.work, lease.used = work, next(self._numbers)

    def open(self, work: Work, now: float) -> Lease:
        """Return a new lease with its first segment."""
        number = next(self._numbers)
        lease = Lease(f"{number}-trial-{work.trial}", work.trial, bundles_of(work), number, work, now)
        self.leases[lease.name] = lease
        return lease

    def reopen(self, lease: Lease) -> bool:
        """Whether a lease that no worker has taken may be opened once more."""
        lease.tries += 1
        return lease.worker is None and lease.work is not None and lease.tries <= _TRIES

    def to_end_for(self, new: Lease | None) -> Lease | None:
        """Return the parked lease least recently used, one whose worker fits the new lease first."""
        parked = [lease for lease in self.leases.values() if lease.parked]
        return min(parked, key=lambda one: (new is not None and one.bundles != new.bundles, one.used), default=None)

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
        if worker is None:
            place = (message["host"], message["pid"], message["node"])
            worker = self.workers[name] = KnownWorker(name, *place, 0.0, now, heard_by_file=now)
        worker.seconds, worker.heard_at = max(worker.seconds, message["worker_seconds"]), now
        lease = self.leases.get(message["lease"])
        if lease is not None:
            lease.worker, worker.lease = worker, lease
        return worker

    def close(self, name: str) -> Lease | None:
        """Strike out a lease that is over; its worker may serve another."""
        lease = self.leases.pop(name, None)
        if lease is not None and lease.worker is not None and lease.worker.lease is lease:
            lease.worker.lease = None
        return lease


def bundles_of(work: Work) -> Bundles:
    """Return what a segment's worker occupies: of a split trial's two halves each has its own part."""
    if not work.config.get("machine", {}).get("split", False):
        return ({"CPU": work.cpus, "GPU": work.gpus},) if work.gpus else ({"CPU": work.cpus},)
    half = {"CPU": max(1.0, work.cpus / 2)}
    if work.gpus:
        half["GPU"] = max(1.0, work.gpus / 2)
    return ({}, half, half)


def total(bundles: Bundles) -> tuple[float, float]:
    """Return the CPUs and GPUs of all bundles."""
    return sum(one.get("CPU", 0.0) for one in bundles), sum(one.get("GPU", 0.0) for one in bundles)


def fits(bundles: Bundles, cpus: float, gpus: float) -> int:
    """Return how many leases a machine with so much has room for."""
    slack = 1e-9  # fractions of a GPU do not add up exactly
    pairs = zip((cpus, gpus), total(bundles), strict=True)
    return min((int((has + slack) / wanted) for has, wanted in pairs if wanted > 0), default=0)
