"""Thins curves for drawing, so that they look as the whole ones would."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.view import ScorePoint

FEWEST = 4  # the first and the last, the lowest and the highest


def thinned(y: ArrayLike, most: int) -> NDArray[np.intp]:
    """Return at most so many indices, in rising order: the first, the last, and of each stretch the lowest and highest.

    So a collapse or a spike of a single point stays. All numbers are finite, and `most` is not below `FEWEST`.
    """
    values = np.asarray(y, dtype=float)
    if len(values) <= most:
        return np.arange(len(values))
    stretches = np.array_split(np.arange(len(values)), (most - 2) // 2)
    ends = [index for part in stretches for index in (part[values[part].argmin()], part[values[part].argmax()])]
    return np.unique([0, len(values) - 1, *ends])


def thinned_curve(scores: Sequence[ScorePoint], most: int) -> list[ScorePoint]:
    """Return at most so many of a curve's scores, as they are: the first, the last and what gives it its shape."""
    return [scores[index] for index in thinned([score.score for score in scores], most)]
