"""Scores as a sparkline."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = "_.-~=+*#"  # for a terminal without Unicode
LEAST_SPAN = 0.1  # of scores: noise around a level is no mountain range


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
