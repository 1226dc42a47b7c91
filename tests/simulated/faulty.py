"""A simulated cluster that loses workers, and a time of day that jumps."""

import heapq
from datetime import datetime, timedelta
from typing import Any

from tests.simulated.executor import SimulatedClock, SimulatedExecutor, ended
from tests.simulated.segment import SimulatedSegment


class JumpingClock(SimulatedClock):
    """Its time of day is corrected now and then; measured seconds know nothing of it."""

    jumped = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.jumped)


class FaultyExecutor(SimulatedExecutor):
    """Loses the workers that have lived longest, and their places with them, as when a node is lost."""

    def __init__(self, *positional: Any, **options: Any) -> None:
        self.jumping = JumpingClock()
        super().__init__(*positional, clock=self.jumping, **options)

    def lose_workers(self, count: int, *, late: bool = False) -> None:
        """With `late` a segment that is reported as lost ends once more when it would have ended."""
        for worker in self._fleet.alive[:count]:
            if late:
                self._end_later(running for running in self._running.values() if running.worker is worker)
            self._end(worker, "its node was lost")
        self._fleet.size -= count

    def _end_later(self, lost: Any) -> None:
        segments: list[SimulatedSegment] = [running for running in lost if running.fault is None]
        for running in segments:
            heapq.heappush(self._heap, (running.over_at, next(self._order), ended(running)))
