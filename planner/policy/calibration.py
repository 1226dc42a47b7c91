"""How far early differences between runs held at their ends: `pairs.toml`, which bench/champion.py fits.

All differences are in units of twice √(p(1 − p)) at the champion's expected end. An end's difference D between a
challenger and a champion with sizes Δn, ΔB octaves apart is normal: before a look its mean is a quadratic in log2 n and
log2 B, after a look at u of the run D̂ = level · (difference of levels) + line · (difference of the straight lines'
ends) + octaves of B, of n, and of distance from the rule's learning rate. What a look explains is the share of the
first's variance that the second lacks.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from planner.curves.curve import pass_rate_variance
from planner.view import Configuration, ScorePoint


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at this share of a run is worth."""

    share: float
    level: float
    line: float
    batch_octave: float
    rollout_octave: float
    rate_octave: float
    sd: float
    explained: float  # of the variance of what no look knows


@dataclass(frozen=True, slots=True)
class Calibration:
    """Terms for pairs of runs that nobody looked at, and for pairs that were looked at, by the share of the run."""

    quadratic: tuple[float, ...]  # of n, B, n², B², n·B
    sd: float
    other_axes_sd: float  # where recipes or rates differ as well
    rise: float  # of a run at its end, per e-fold of GPU-hours
    looks: tuple[Look, ...]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Calibration":
        """Read what `pairs.toml` holds."""
        prior, looks = data["prior"], data["looks"]
        return cls(
            tuple(prior["quadratic"]),
            prior["sd"],
            prior["other_axes_sd"],
            prior["rise"],
            tuple(Look(**row) for row in looks),
        )

    def at(self, share: float) -> Look:
        """Return the terms of the look nearest to a share of the run, in proportion."""
        return min(self.looks, key=lambda look: abs(math.log(look.share / max(share, 1e-6))))

    def explained(self, share: float) -> float:
        """Return how much of the ends' differences a look at a share of the run explains."""
        return self.at(share).explained

    def without_look(self, champion: Configuration, challenger: Configuration) -> tuple[float, float]:
        """Return mean and standard deviation of what a challenger ends above the champion, before any look."""
        mean = float(np.dot(quadratic_terms(champion, challenger), self.quadratic))
        return mean, self.sd if champion.axes == challenger.axes else self.other_axes_sd


@cache
def calibration() -> Calibration:
    """Return what was fitted on all families."""
    return Calibration.of(tomllib.loads((files(__package__) / "pairs.toml").read_text(encoding="utf-8")))


def quadratic_terms(one: Configuration, other: Configuration) -> Sequence[float]:
    """Return the differences of n, B, n², B² and n·B, each in log2."""
    n, B = math.log2(one.rollouts_per_prompt), math.log2(one.prompts_per_batch)
    m, C = math.log2(other.rollouts_per_prompt), math.log2(other.prompts_per_batch)
    return m - n, C - B, m * m - n * n, C * C - B * B, m * C - n * B


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
