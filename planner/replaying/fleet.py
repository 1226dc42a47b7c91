"""The workers of a simulated cluster: which live, and which trial each holds in its memory."""

from dataclasses import dataclass
from itertools import count

from budgets.errors import InputError


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """One life of a worker; the one that takes its place has another name."""

    name: str
    born: float
    accounted: float  # until when its life was in segments that are over
    folder: str | None = None  # of the trial in its memory
    step: int = -1


class Fleet:
    """At most so many workers; one is born when it is first needed and lives until it is lost."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError(f"{size} workers: give at least 1")
        self.size = size
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

    def take(self, folder: str, now: float) -> SimulatedWorker:
        """Return an idle worker: the one that holds the trial, else a new one, else the one that was idle longest."""
        worker = self._holders.pop(folder, None)
        if worker is None and len(self._alive) < self.size:
            worker = SimulatedWorker(f"worker-{next(self._numbers)}", now, now)
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
        """End a worker's life; another one can be born in its place."""
        self._forget(worker)
        self._idle.pop(worker, None)
        del self._alive[worker]

    def _forget(self, worker: SimulatedWorker) -> None:
        if worker.folder is not None and self._holders.get(worker.folder) is worker:
            del self._holders[worker.folder]
