"""The workers as the driver knows them: by their messages, and by the record that each keeps in the sweep's folder."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.sweep.worker_records import SECONDS_BETWEEN_BEATS, SECONDS_OF_SILENCE, lives, record_of

if TYPE_CHECKING:
    from runner.sweep.on_ray.leases import Lease
    from runner.sweep.on_ray.placing import Footprint

_SECONDS_BETWEEN_LOOKS = 0.5
_SILENT_HERE = 3.0  # seconds without a sign of life after which a process that is not there has ended
_SILENT_REMOTE = 60.0


@dataclass
class KnownWorker:
    """A worker process as it was last heard of."""

    name: str
    host: str
    pid: int
    node: str
    nodes: tuple[str, ...]  # of each part of what it occupies; one of them its own
    footprint: "Footprint"
    seconds: float  # of its life, when it was last heard of
    heard_at: float  # by the driver's clock
    lease: "Lease | None" = None
    recorded: bool = False  # its record was found: nothing is charged that is not in it
    paid_seconds: float = 0.0  # of its life, in segments that are over
    over: bool = False
    ended_because: str | None = None  # what the driver ended it for

    def was_there(self, now: float) -> None:
        """Count the time since it was last heard of, in which it lived though it may not have recorded it."""
        self.seconds += max(0.0, now - self.heard_at)
        self.heard_at = now

    @property
    def remote_nodes(self) -> list[str]:
        """The nodes with processes of its own that are not the driver's machine."""
        return sorted({*self.nodes, self.node} - ({self.node} if self.is_here else set()))

    @property
    def is_here(self) -> bool:
        """Whether it runs on the driver's machine."""
        return self.host == socket.gethostname()

    def lived(self, now: float, most_seconds: float = float("inf")) -> float:
        """Return how long it lived if nothing more is heard of it.

        That is what it has recorded, and what it had no time to record; without a record, what the segment that it had
        could use at most.
        """
        silent = max(0.0, now - self.heard_at)
        if self.recorded:
            return self.seconds + (0.0 if self.over else min(silent, SECONDS_BETWEEN_BEATS))
        return max(self.seconds, min(self.seconds + silent, self.paid_seconds + most_seconds))


class Records:
    """Reads what workers have recorded; of the end of one without a segment Ray says nothing."""

    def __init__(self, sweep_folder: Path) -> None:
        self._folder = sweep_folder
        self._looked_at = 0.0

    def read(self, worker: KnownWorker, now: float) -> None:
        """Take in what a worker has recorded."""
        record = record_of(self._folder, worker.name)
        if record is None:
            return
        worker.recorded, worker.over = True, record.over
        if record.seconds > worker.seconds:
            worker.seconds, worker.heard_at = record.seconds, now

    def unended(self, workers: Iterable[KnownWorker], now: float) -> list[KnownWorker]:
        """Return those that have not written their last word, and whose process is not seen to be gone."""
        left = []
        for worker in workers:
            self.read(worker, now)
            if not (worker.over or (worker.is_here and not lives(worker.pid))):
                left.append(worker)
        return left

    def ended(self, workers: Iterable[KnownWorker], now: float) -> list[KnownWorker]:
        """Return those whose life is over, of those that have no segment or that Ray calls dead."""
        if now - self._looked_at < _SECONDS_BETWEEN_LOOKS:
            return []
        self._looked_at = now
        return [worker for worker in workers if self._has_ended(worker, now)]

    def _has_ended(self, worker: KnownWorker, now: float) -> bool:
        lost = worker.lease is not None and worker.lease.lost is not None
        if worker.lease is not None and not lost:
            return False
        self.read(worker, now)
        here = worker.is_here and not lives(worker.pid)
        silent = now - worker.heard_at
        return worker.over or silent > (_SILENT_HERE if here else SECONDS_OF_SILENCE if lost else _SILENT_REMOTE)
