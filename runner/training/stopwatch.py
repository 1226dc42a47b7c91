"""Seconds by phase of a step."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic


class Stopwatch:
    """Adds up the seconds of each phase since it was last read."""

    def __init__(self) -> None:
        self._phases: dict[str, float] = {}
        self._since = monotonic()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge the time spent inside to a phase."""
        began = monotonic()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + monotonic() - began

    def read(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the last reading, those of each phase among them, and begin anew."""
        now = monotonic()
        elapsed, phases = now - self._since, self._phases
        self._since, self._phases = now, {}
        return elapsed, phases
