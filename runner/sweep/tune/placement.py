"""Which machines of a cluster a sweep gets, how many trials they have room for, and where one goes.

Room is counted in whole placements, never as a sum over nodes.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError
from planner.config.cluster import ClusterSection
from runner.machine import cpu_cores
from runner.ports.executor import NoRoomError, Work
from runner.sweep.tune.cluster import GIGABYTE, Node
from runner.trainers.in_own_ray import PORTS_VARIABLE

if TYPE_CHECKING:
    from runner.sweep.tune.workers import RayWorker

NODE_LABEL = "ray.io/node-id"  # which Ray gives every node
_SLACK = 1e-9  # fractions of a GPU do not add up exactly
HANG = "hang"  # the kind of failure
MOST_HANGS = 2  # in a row on one node: then it is left out
_ANY_OF = re.compile(r"in\((.*)\)")

Has = tuple[float, float, float]  # CPUs, GPUs and GB of memory
NOTHING: Has = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a trial's worker occupies: equal parts, each of one node; of several nodes one part each."""

    cpus: float = 1.0  # of each part
    gpus: float = 0.0
    parts: int = 1
    memory_gb: float = 0.0  # of each part

    @classmethod
    def of(cls, work: Work) -> "Footprint":
        """Return what a segment's worker occupies."""
        nodes = work.config.get("machine", {}).get("nodes", 1)
        return cls.over(int(nodes), work.cpus, work.gpus, work.memory_gb)

    @classmethod
    def over(cls, nodes: int, cpus: float, gpus: float, memory_gb: float = 0.0) -> "Footprint":
        """Return equal parts of several nodes, or of one; on each of several runs at least one process."""
        return cls(cpus if nodes == 1 else max(1.0, cpus / nodes), gpus / nodes, nodes, memory_gb / nodes)

    @property
    def bundles(self) -> list[dict[str, float]]:
        """What Ray is asked for, the worker's own bundle first."""
        amounts = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory_gb * GIGABYTE}
        return [{name: amount for name, amount in amounts.items() if amount or name == "CPU"}] * self.parts

    def parts_in(self, has: Has) -> int:
        """Return how many parts a node with so much has room for."""
        pairs = zip(has, (self.cpus, self.gpus, self.memory_gb), strict=True)
        return min((int((free + _SLACK) / need) for free, need in pairs if need > 0), default=0)

    def times_in(self, nodes: Iterable[Has]) -> int:
        """Return how many trials can be placed at once."""
        parts = [self.parts_in(has) for has in nodes]
        most = sum(parts) // self.parts
        # So many find distinct nodes for their parts exactly if no node has to take two parts of one of them.
        return next(times for times in range(most, -1, -1) if sum(min(n, times) for n in parts) >= times * self.parts)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker may be started."""

    footprint: Footprint
    target: str | None = None  # the node that is tried first
    avoided: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()  # that its nodes must have, by Ray's rules

    @property
    def asked(self) -> dict[str, Any]:
        """What Ray is asked for: bundles, how they share nodes, and what it is told beyond that."""
        apart, selector = self.footprint.parts > 1, dict(self.labels)
        if self.avoided:
            selector[NODE_LABEL] = f"!in({','.join(self.avoided)})"
        options: dict[str, Any] = {"_soft_target_node_id": self.target} if self.target else {}
        options |= {"bundle_label_selector": [selector] * self.footprint.parts} if selector else {}
        strategy = "STRICT_SPREAD" if apart else "STRICT_PACK" if self.target else "PACK"
        return {"bundles": self.footprint.bundles, "strategy": strategy, "options": options}


@dataclass(frozen=True, slots=True)
class Placement:
    """What is asked of machines beyond what a plan says; by default nothing."""

    cpus: float | None = None  # of a trial's worker
    memory_gb: float = 0.0  # likewise; 0: not counted
    labels: Mapping[str, str] = field(default_factory=dict)  # by Ray's rules
    runtime_env: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, section: ClusterSection) -> "Placement":
        """Return what the file says; the range of ports reaches trainers as a variable."""
        runtime_env = dict(section.runtime_env)
        if section.ports is not None:
            runtime_env["env_vars"] = {**runtime_env.get("env_vars", {}), PORTS_VARIABLE: section.ports}
        return cls(section.cpus_per_trial, section.memory_gb_per_trial or 0.0, section.selector, runtime_env)

    def applied(self, work: Work) -> Work:
        """Return a segment with what its worker is to occupy."""
        return replace(work, cpus=work.cpus if self.cpus is None else self.cpus, memory_gb=self.memory_gb)

    def among(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return the machines that have all the labels."""
        labels = self.labels.items()
        return tuple(node for node in nodes if all(_matches(node.labels.get(name), value) for name, value in labels))

    def require_some(self, nodes: Sequence[Node], usable_nodes: Sequence[Node]) -> None:
        """Refuse a cluster where no machine has the labels, naming those that there are."""
        if usable_nodes or not nodes:
            return
        labels = ", ".join(f"{name} = {value}" for name, value in self.labels.items())
        has = "; ".join(
            f"{name}: {', '.join(sorted({node.labels.get(name, 'none') for node in nodes}))}" for name in self.labels
        )
        raise InputError(f"[cluster]: no machine of the cluster has {labels}. They have {has}")


ANYWHERE = Placement()


@dataclass(frozen=True, slots=True)
class ClusterResources:
    """What a cluster has, machine by machine."""

    nodes: tuple[Node, ...]

    def largest(self, nodes: int = 1) -> tuple[float, float]:
        """Return the CPUs and GPUs of the largest trial on so many machines, which has equal parts of them."""
        best = sorted(((node.gpus, node.cpus) for node in self.nodes), reverse=True)[:nodes]
        if len(best) < nodes:
            return 0.0, 0.0
        return nodes * min(cpus for _, cpus in best), nodes * min(gpus for gpus, _ in best)


class Hangs:
    """Counts hangs by node, until a segment ends well there, and remembers where each trial hung.

    A trial that hung is tried again elsewhere: if it hangs there too the nodes have one each, and the fault is its own.
    """

    def __init__(self) -> None:
        self._in_a_row: defaultdict[str, int] = defaultdict(int)
        self._of_trial: defaultdict[int, set[str]] = defaultdict(set)

    def hung(self, trial: int, nodes: Iterable[str]) -> set[str]:
        """Note that a segment hung on some nodes, and return those that are left out from now on."""
        before = self.left_out
        for node in set(nodes):
            self._in_a_row[node] += 1
            self._of_trial[trial].add(node)
        return self.left_out - before

    def ended_well(self, nodes: Iterable[str]) -> None:
        """Note that a segment ended well."""
        for node in nodes:
            self._in_a_row.pop(node, None)

    @property
    def left_out(self) -> set[str]:
        """The nodes on which no trial is run."""
        return {node for node, hangs in self._in_a_row.items() if hangs >= MOST_HANGS}

    def unwanted_for(self, trial: int) -> set[str]:
        """Return the nodes on which a trial is not to run."""
        return self.left_out | self._of_trial[trial]


def with_real_cores(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return this machine with the cores that it has, instead of those that Ray was told of when it was started."""
    cores = float(cpu_cores())
    return tuple(replace(node, cpus=cores, free_cpus=cores) for node in nodes)


def room(nodes: Sequence[Node], workers: Iterable["RayWorker"], typical: Footprint) -> int:
    """Return how many typical trials fit in what is free and in what our own workers hold already."""
    by_node = _held(workers)
    return typical.times_in(_open_to_us(node, by_node) for node in nodes)


def usable(nodes: Sequence[Node], footprint: Footprint, unwanted: Collection[str]) -> Sequence[Node]:
    """Return the nodes without the unwanted ones, or all when a trial could not be placed on the others."""
    rest = [node for node in nodes if node.node not in unwanted]
    return rest if footprint.times_in(_whole(rest)) else nodes


def tightest(footprint: Footprint, nodes: Sequence[Node], workers: Sequence["RayWorker"]) -> str | None:
    """Return the node with the fewest free GPUs that has room for a part of a node, so that whole ones stay free.

    Ray itself takes the emptiest one. Of workers that have not said yet where they are, their target counts.
    """
    shared = any(footprint.parts_in(has) > 1 for has in _whole(nodes))
    if footprint.parts > 1 or not footprint.gpus or not shared:
        return None
    by_node, promised = _held(workers), _held(worker for worker in workers if worker.ended_because is None)
    for worker in workers:
        if worker.name is None and worker.place.target is not None:
            _take(promised, worker.place.target, worker.place.footprint)
    free_by_node = {}
    for node in nodes:
        has, ours = _open_to_us(node, by_node), promised.get(node.node, NOTHING)
        free_by_node[node.node] = has[0] - ours[0], has[1] - ours[1], has[2] - ours[2]
    fitting = [(free[1], free[0], name) for name, free in free_by_node.items() if footprint.parts_in(free)]
    return min(fitting)[2] if fitting else None


def require_fits(work: Work, nodes: Sequence[Node], *, may_grow: bool = False) -> None:
    """Refuse a segment that these machines could never run, naming what they have.

    Where more may join them it is NoRoomError.
    """
    needs = Footprint.of(work)
    if needs.times_in(_whole(nodes)):
        return
    size = f"{needs.cpus:g} CPUs and {needs.gpus:g} GPUs"
    size += f" with {needs.memory_gb:g} GB" if needs.memory_gb else ""
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        has = f"{node.cpus:g} CPUs, {node.gpus:g} GPUs" + (f", {node.memory_gb:.3g} GB" if needs.memory_gb > 0 else "")
        hosts[has].append(node.host)
    texts = [f"{on[0]}: {has}" if len(on) == 1 else f"{len(on)} machines: {has} each" for has, on in hosts.items()]
    need = f"{needs.parts} nodes with {size} each" if needs.parts > 1 else f"{size} on one machine"
    raise (NoRoomError if may_grow else InputError)(
        f"trial {work.trial} needs {need}, which is not there ({'; '.join(texts) or 'no machine'}): give it "
        "less, or join a larger cluster with --ray-address"
    )


def _whole(nodes: Iterable[Node]) -> list[Has]:
    return [(node.cpus, node.gpus, node.memory_gb) for node in nodes]


def _open_to_us(node: Node, by_node: Mapping[str, Has]) -> Has:
    cpus, gpus, memory = by_node.get(node.node, NOTHING)
    free = node.free_cpus + cpus, node.free_gpus + gpus, node.free_memory_gb + memory
    return min(node.cpus, free[0]), min(node.gpus, free[1]), min(node.memory_gb, free[2])


def _held(workers: Iterable["RayWorker"]) -> dict[str, Has]:
    by_node: dict[str, Has] = {}
    for worker in workers:
        for node in worker.nodes:
            _take(by_node, node, worker.place.footprint)
    return by_node


def _take(by_node: dict[str, Has], node: str, footprint: Footprint) -> None:
    cpus, gpus, memory = by_node.get(node, NOTHING)
    by_node[node] = cpus + footprint.cpus, gpus + footprint.gpus, memory + footprint.memory_gb


def _matches(value: str | None, selector: str) -> bool:
    """Whether a label has a value as Ray's selectors have it: x, !x, in(x,y) or !in(x,y)."""
    negated, words = selector.startswith("!"), selector.removeprefix("!")
    any_of = _ANY_OF.fullmatch(words)
    values = [part.strip() for part in any_of[1].split(",")] if any_of else [words]
    return (value in values) != negated
