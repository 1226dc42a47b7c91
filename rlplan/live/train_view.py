"""How a run under way reads: its pace, the time it still takes, its scores as a sparkline."""

from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from rlplan.printing.numbers import duration
from runner.ports.backend import Point

T = TypeVar("T")

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = "_.-~=+*#"  # for a terminal without Unicode
LEAST_SPAN = 0.1  # of scores: noise around a level is no mountain range
WINDOW = 20  # points over which the pace is taken
SECONDS_PER_HOUR = 3600.0


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


def sparkline(values: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """Draw values from left to right, thinned to a width; the lowest block is the smallest of them."""
    shown = thinned(values, width)
    if not shown:
        return ""
    low = min(values)
    span = max(max(values) - low, LEAST_SPAN)
    return "".join(blocks[min(len(blocks) - 1, int((value - low) / span * len(blocks)))] for value in shown)


def thinned(values: Sequence[T], most: int) -> list[T]:
    """Return at most so many values, evenly spaced, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    if most < 2:
        return list(values[-1:]) if most == 1 else []
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def score(point: Point) -> str:
    """Write a score with its standard error."""
    error = point.score_standard_error
    return f"{point.score:.3f}" + (f" ± {error:.3f}" if error is not None else "")


def metric(point: Point | None, name: str, format: str) -> str:
    """Write a metric of an update, or a dash where there is none."""
    value = point.metrics.get(name) if point else None
    return format.format(value) if isinstance(value, int | float) else "–"
