"""How many segments a cluster has room for, and what it has, from what its machines report."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from budgets.errors import InputError
from runner.ports.executor import Work
from runner.sweep.on_ray.cluster import Node
from runner.sweep.on_ray.leases import Bundles, KnownWorker, bundles_of, fits, total


@dataclass(frozen=True, slots=True)
class Resources:
    """What a cluster has, machine by machine."""

    nodes: tuple[Node, ...]

    def largest(self) -> tuple[float, float]:
        """Return the CPUs and GPUs of the machine with the most GPUs, and of those the most CPUs."""
        best = max(self.nodes, key=lambda node: (node.gpus, node.cpus), default=None)
        return (best.cpus, best.gpus) if best is not None else (0.0, 0.0)


def with_real_cores(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return this machine with the cores that it has, instead of those that Ray was told of when it was started."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
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
