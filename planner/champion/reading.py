"""Read off a learning curve what challengers are compared by: its level, and where its slope leads."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from planner.curves.curve import pass_rate_variance
from planner.view import ScorePoint

FEW_SCORES = 6  # up to so many, the level is the mean of the last two, and of the last three beyond
LATE_PART = 4  # the slope is that over the last three quarters of the GPU-hours
LEAST_LEVEL = 0.03  # of the scale of differences: at 0 and 1 it would be nothing


class Reading(NamedTuple):
    """What a curve has come to: its level, its slope per e-fold of GPU-hours, and its line's score at the end."""

    level: float
    slope: float
    line: float


def read_curve(points: Sequence[ScorePoint], end_gpu_hours: float) -> Reading:
    """Read a curve with at least one score; a straight line in log GPU-hours leads to the end."""
    scores = np.array([point.score for point in points])
    gpu_hours = np.array([point.gpu_hours for point in points])
    last = max(1, min(2 if len(points) <= FEW_SCORES else 3, len(points) - 1))
    level = float(scores[-last:].mean())
    late = (gpu_hours > 0) & (gpu_hours >= gpu_hours[-1] / LATE_PART)
    if late.sum() < 3:
        return Reading(level, 0.0, level)
    x = np.log(gpu_hours[late])
    slope = float(((x - x.mean()) * scores[late]).sum() / ((x - x.mean()) ** 2).sum())
    line = float(np.clip(scores[late].mean() + slope * (math.log(end_gpu_hours) - x.mean()), 0.0, 1.0))
    return Reading(level, slope, line)


def scale(score: float) -> float:
    """Return what differences are measured in where scores are about so high: twice √(p(1 − p)), 1 at one half."""
    return 2 * math.sqrt(pass_rate_variance(min(1 - LEAST_LEVEL, max(LEAST_LEVEL, score))))
