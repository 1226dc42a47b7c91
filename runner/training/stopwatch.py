"""Seconds by phase of a step; the clock is handed in."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Clock = Callable[[], float]
monotonic: Clock = time.monotonic  # it never jumps


class Stopwatch:
    """Adds up the seconds of each phase since it was last read."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._phases: dict[str, float] = {}
        self._since = clock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge the time spent inside to a phase."""
        began = self._clock()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + self._clock() - began

    def read(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the last reading, those of each phase among them, and begin anew."""
        now = self._clock()
        elapsed, phases = now - self._since, self._phases
        self._since, self._phases = now, {}
        return elapsed, phases
