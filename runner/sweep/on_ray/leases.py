"""The driver's book of leases, and how many of them a cluster has room for: without Ray and without a clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from budgets.errors import InputError
from runner.machine import cpu_cores
from runner.ports.executor import Work
from runner.sweep.on_ray.cluster import Node
from runner.sweep.on_ray.known_workers import KnownWorker

Bundles = tuple[dict[str, float], ...]  # what each process of a lease occupies, the worker's own first

_TRIES = 2  # a lease that no worker took is opened so often: the worker that Tune kept for it may have died unnoticed


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
    lost: dict[str, Any] | None = None  # how Ray reported its end, while its worker may still be writing
    tries: int = 1

    @property
    def parked(self) -> bool:
        """Whether it waits for its next segment."""
        return self.work is None and not self.closing


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
            worker = self.workers[name] = KnownWorker(name, *place, 0.0, now)
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


@dataclass(frozen=True, slots=True)
class ClusterResources:
    """What a cluster has, machine by machine."""

    nodes: tuple[Node, ...]

    def largest(self) -> tuple[float, float]:
        """Return the CPUs and GPUs of the machine with the most GPUs, and of those the most CPUs."""
        best = max(self.nodes, key=lambda node: (node.gpus, node.cpus), default=None)
        return (best.cpus, best.gpus) if best is not None else (0.0, 0.0)


def with_real_cores(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return this machine with the cores that it has, instead of those that Ray was told of when it was started."""
    cores = float(cpu_cores())
    return tuple(replace(node, cpus=cores, free_cpus=cores) for node in nodes)


def room(nodes: Sequence[Node], workers: Iterable[KnownWorker], typical: Bundles) -> int:
    """Return how many leases fit in what is free and in what our own workers hold already."""
    held: dict[str, tuple[float, float]] = {}
    for worker in workers:
        cpus, gpus = total(worker.lease.bundles if worker.lease is not None else typical)
        before = held.get(worker.node, (0.0, 0.0))
        held[worker.node] = before[0] + cpus, before[1] + gpus
    places = 0
    for node in nodes:
        cpus, gpus = held.get(node.node, (0.0, 0.0))
        places += fits(typical, min(node.cpus, node.free_cpus + cpus), min(node.gpus, node.free_gpus + gpus))
    return places


def require_fits(work: Work, nodes: Sequence[Node]) -> None:
    """Refuse a segment that no machine could ever run."""
    bundles = bundles_of(work)
    cpus, gpus = total(bundles)
    if len(bundles) == 1:
        possible = any(fits(bundles, node.cpus, node.gpus) for node in nodes)
    else:  # the halves of a split trial may lie on two machines
        possible = bool(fits(bundles, sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)))
    if not possible:
        has = "; ".join(f"{node.host}: {node.cpus:g} CPUs, {node.gpus:g} GPUs" for node in nodes) or "no machine"
        raise InputError(
            f"trial {work.trial} needs {cpus:g} CPUs and {gpus:g} GPUs, which no machine has ({has}): give it less, or "
            "join a larger cluster with --ray-address"
        )
