"""How a run under way reads: its pace, the time it still takes, its scores."""

from collections import deque

from rlplan.wording.numbers import SECONDS_PER_HOUR, duration
from runner.ports.backend import Point

WINDOW = 20  # points over which the pace is taken


class Pace:
    """The speed over the last points, validations included."""

    def __init__(self) -> None:
        self._recent: deque[Point] = deque(maxlen=WINDOW)

    def add(self, point: Point) -> None:
        """Take the newest point."""
        self._recent.append(point)

    @property
    def rollouts_per_second(self) -> float | None:
        """Rollouts generated for training, by the second; None before there are two points."""
        seconds = self._seconds()
        return (self._recent[-1].rollouts - self._recent[0].rollouts) / seconds if seconds else None

    def left(self, to_step: int) -> str:
        """Return the time that the remaining updates take."""
        seconds = self._seconds()
        if not seconds:
            return "–"
        steps = self._recent[-1].optimizer_step - self._recent[0].optimizer_step
        return duration(seconds / steps * (to_step - self._recent[-1].optimizer_step) / SECONDS_PER_HOUR)

    def _seconds(self) -> float:
        return self._recent[-1].seconds - self._recent[0].seconds if len(self._recent) > 1 else 0.0


def metric(point: Point | None, name: str, format: str) -> str:
    """Write a metric of an update, or a dash where there is none."""
    value = point.metrics.get(name) if point else None
    return format.format(value) if isinstance(value, int | float) else "–"
