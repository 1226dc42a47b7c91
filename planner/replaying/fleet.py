"""The workers of a simulated cluster: which live, on which node, and which trial each holds in its memory."""

from collections import deque
from dataclasses import dataclass
from itertools import count

from budgets.errors import InputError


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """One life of a worker; a slot that loses it gets another one, of another name."""

    name: str
    slot: int
    born: float
    accounted: float  # until when its life was in segments that are over
    folder: str | None = None  # of the trial in its memory
    step: int = -1


class Fleet:
    """Slots on nodes; a worker is born in a slot when it is first needed and lives until it is lost."""

    def __init__(self, workers: int, workers_per_node: int) -> None:
        if workers < 1 or workers_per_node < 1:
            raise InputError(f"{workers} workers with {workers_per_node} on each node: give at least 1 of each")
        self._per_node = workers_per_node
        self._slots = workers
        self._lost_nodes: set[int] = set()
        self._free = deque(range(workers))  # slots without a worker
        self._idle: dict[SimulatedWorker, None] = {}  # the longest idle first
        self._holders: dict[str, SimulatedWorker] = {}  # idle workers by the trial that they hold
        self._alive: dict[SimulatedWorker, None] = {}
        self._numbers = count(1)

    @property
    def alive(self) -> list[SimulatedWorker]:
        """The workers that live now, in the order of their birth."""
        return list(self._alive)

    @property
    def idle(self) -> list[SimulatedWorker]:
        """The workers that hold no segment, the longest idle first."""
        return list(self._idle)

    @property
    def size(self) -> int:
        """How many workers there can be now."""
        return sum(slot // self._per_node not in self._lost_nodes for slot in range(self._slots))

    def take(self, folder: str, now: float) -> SimulatedWorker:
        """Return an idle worker: the one that holds the trial, else a new one, else the one that was idle longest."""
        worker = self._holders.pop(folder, None)
        if worker is None and self._free:
            worker = SimulatedWorker(f"worker-{next(self._numbers)}", self._free.popleft(), now, now)
            self._alive[worker] = None
            return worker
        if worker is None:
            worker = next(iter(self._idle))
            self._forget(worker)
        del self._idle[worker]
        return worker

    def park(self, worker: SimulatedWorker, folder: str | None, step: int, now: float) -> None:
        """Let a worker be idle, with a trial in its memory or none."""
        worker.accounted = now
        worker.folder, worker.step = folder, step
        self._idle[worker] = None
        if folder is not None:
            self._holders[folder] = worker

    def lose(self, worker: SimulatedWorker) -> None:
        """End a worker's life; its slot can have another one while the node stands."""
        self._forget(worker)
        self._idle.pop(worker, None)
        del self._alive[worker]
        if worker.slot // self._per_node not in self._lost_nodes:
            self._free.append(worker.slot)

    def lose_node(self, node: int) -> list[SimulatedWorker]:
        """Take a node away and return the workers on it, each of which is then to be lost."""
        if not 0 <= node <= (self._slots - 1) // self._per_node or node in self._lost_nodes:
            standing = [n for n in range((self._slots - 1) // self._per_node + 1) if n not in self._lost_nodes]
            raise InputError(f"no node {node} to lose: standing are {standing}")
        self._lost_nodes.add(node)
        self._free = deque(slot for slot in self._free if slot // self._per_node != node)
        return [worker for worker in self._alive if worker.slot // self._per_node == node]

    def join_node(self, node: int) -> None:
        """Bring a lost node back, with nobody on it."""
        if node not in self._lost_nodes:
            raise InputError(f"node {node} is not lost: lost are {sorted(self._lost_nodes)}")
        self._lost_nodes.remove(node)
        self._free.extend(slot for slot in range(self._slots) if slot // self._per_node == node)

    def _forget(self, worker: SimulatedWorker) -> None:
        if worker.folder is not None and self._holders.get(worker.folder) is worker:
            del self._holders[worker.folder]
