"""Thins curves for drawing, so that they look as the whole ones would."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.view import ScorePoint

FEWEST = 4  # the first and the last, the lowest and the highest


def thinned(x: ArrayLike, y: ArrayLike, most: int) -> NDArray[np.intp]:
    """Return at most so many indices, in rising order: the first, the last, and what is lowest and highest between.

    Points are taken together half by their place along x and half by rank, and of each part the lowest and the highest
    stay: a collapse or a spike of a single point is among them. `x` rises, and all numbers are finite; `most` is not
    below `FEWEST`.
    """
    places, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    count = len(values)
    if count <= most:
        return np.arange(count)
    parts = (most - 2) // 2
    span = places[-1] - places[0]
    rank = np.arange(count) / (count - 1)
    along = (places - places[0]) / span if span > 0 else rank
    part = np.minimum((0.5 * (along + rank) * parts).astype(np.intp), parts - 1)
    # Sorted by part and then by value: the lowest of a part is its first, the highest its last.
    order = np.lexsort((values, part))
    bounds = np.flatnonzero(np.diff(part[order], prepend=-1))
    ends = np.append(bounds[1:], count) - 1
    return np.unique(np.concatenate(([0, count - 1], order[bounds], order[ends])))


def thinned_curve(scores: Sequence[ScorePoint], most: int) -> list[ScorePoint]:
    """Return at most so many of a curve's scores, as they are: the first, the last and what gives it its shape."""
    if len(scores) <= most:
        return list(scores)
    indices = thinned([score.gpu_hours for score in scores], [score.score for score in scores], most)
    return [scores[int(index)] for index in indices]
