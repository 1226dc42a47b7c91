"""The points of many curves in one shape, a few bins each in log compute, and the form of a curve."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from planner.curves.curve import Vector, pass_rate_variance
from planner.curves.verdicts import before_collapse
from planner.view import ScorePoint

BINS = 12
EMPTY_VARIANCE = 1e6  # variance of a bin without points
DISPERSION_PRIOR = 1 / 400  # of p(1 − p): some hundred problems, answered a few times
DISPERSION_WORTH = 5.0  # differences that the prior counts as
ORIGIN = 0.02  # of the target: before it little can have gone astray


@dataclass(frozen=True)
class Points:
    """Curves × bins; compute is in units of the target."""

    x: Vector
    score: Vector
    variance: Vector
    of_one_score: float  # variance, the median over all

    @property
    def time(self) -> Vector:
        """The clock of the discrepancy: logarithmic, and 0 before the first update."""
        return clock(self.x)


@dataclass(frozen=True)
class Binned:
    """One curve in bins: compute in GPU-hours, mean score, number of points, and the mean variance that was given."""

    x: Vector
    score: Vector
    count: Vector
    given: Vector
    differences: tuple[float, float]  # Σ of squared differences over p(1 − p), and their number
    reached: float  # GPU-hours of its last score
    collapsed: float | None  # the level that it fell to, whose scores are in none of the bins


def clock(x: Vector) -> Vector:
    """Return log(1 + x / 0.02), in which a curve's departures from its sigmoid wander."""
    return np.asarray(np.log1p(np.asarray(x) / ORIGIN))


def binned(scores: Sequence[ScorePoint]) -> Binned:
    """Bin one curve: those at no compute together, the others half by their place in log compute and half by rank."""
    reached, end = scores[-1].gpu_hours, before_collapse([point.score for point in scores])
    fallen, scores = scores[end:], scores[:end]
    x = np.array([point.gpu_hours for point in scores])
    y = np.array([point.score for point in scores])
    error = np.array([0.0 if point.standard_error is None else point.standard_error for point in scores])
    start = int((x <= 0).sum())
    column = np.zeros(len(x), dtype=np.intp)
    count = len(x) - start
    if count:
        rank = np.arange(count)
        if count > BINS - 1:
            log_x = np.log(x[start:])
            along = (log_x - log_x[0]) / max(log_x[-1] - log_x[0], 1e-9)
            rank = (0.999 * (0.5 * along + 0.5 * rank / count) * (BINS - 1)).astype(np.intp)
        column[start:] = 1 + rank
    number = np.bincount(column, minlength=BINS).astype(float)
    filled = np.maximum(number, 1.0)
    return Binned(
        x=np.bincount(column, np.maximum(x, 0.0), minlength=BINS) / filled,
        score=np.bincount(column, y, minlength=BINS) / filled,
        count=number,
        given=np.bincount(column, error**2, minlength=BINS) / filled,
        differences=_differences(y),
        reached=reached,
        collapsed=float(np.mean([point.score for point in fallen])) if fallen else None,
    )


def _differences(y: Vector) -> tuple[float, float]:
    """Sum squares of second differences, which a rise does not enter, in units of a single score's p(1 − p)."""
    if len(y) < 4:
        return 0.0, 0.0
    second = y[2:] - 2 * y[1:-1] + y[:-2]
    ratio = np.sort(second**2 / 6 / pass_rate_variance(y[1:-1]))
    smallest = ratio[: max(2, int(0.9 * len(ratio)))]  # a jump is no noise
    return float(smallest.sum() * 1.3), float(len(smallest))


def stacked(curves: Sequence[Binned], target: float) -> Points:
    """Bring curves together; the noise of scores without a standard error is one for all, as share of p(1 − p)."""
    if not curves:
        return Points(np.zeros((0, BINS)), np.zeros((0, BINS)), np.zeros((0, BINS)), math.nan)
    x = np.stack([curve.x for curve in curves]) / target  # (i, j): curves, bins
    score = np.stack([curve.score for curve in curves])
    count = np.stack([curve.count for curve in curves])
    errors = np.stack([curve.given for curve in curves])
    total = DISPERSION_WORTH * DISPERSION_PRIOR + sum(curve.differences[0] for curve in curves)
    # the variance of a score without a standard error is one share of p(1 − p) for all
    dispersion = total / (DISPERSION_WORTH + sum(curve.differences[1] for curve in curves))
    single = np.where(errors > 0, errors, dispersion * pass_rate_variance(score))
    variance = np.where(count > 0, single / np.maximum(count, 1.0), EMPTY_VARIANCE)
    return Points(x, score, variance, float(np.median(single[count > 0])))


# A curve is R0 + (A − R0)·g(C) with 1 − g = (1 + (2^(1/k) − 1)·(C / C_mid)^B)^−k, Burr's distribution; with k = 1 it
# is the sigmoid. From that all curves depart alike, linearly in log compute between a few knots.
TAIL = 0.7  # k; runs of AllocBench come in more slowly than they rose, as with 0.5, and others as sigmoids do
STEEPEST = 3.0  # |log B|
FARTHEST_RISE = 200.0  # |z| beyond which a rise has not begun, or is over
KNOTS = 4  # between which the common departure is linear in log compute


def remaining_gain(z: Vector) -> Vector:
    """Return what is left of the gain, 1 − g, in the place of `z` = B·log(C / C_mid); a half at 0."""
    np.clip(z, -FARTHEST_RISE, FARTHEST_RISE, out=z)
    np.exp(z, out=z)
    z *= 2 ** (1 / TAIL) - 1
    z += 1
    return np.power(z, -TAIL, out=z)


def sigmoid(local: Vector, start: Vector, log_x: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the score, 1 − g, A and B; the last axis of `local` is taken away."""
    top = start + (1 - start) * expit(local[..., 0])
    steep = np.exp(np.clip(local[..., 2], -STEEPEST, STEEPEST))
    missing = remaining_gain(steep * (log_x - local[..., 1]))
    return top - (top - start) * missing, missing, top, steep


def common_steps(x: Vector) -> Vector:
    """Return how much of each step of the common departure has been taken by a compute, on a last axis."""
    step = float(clock(np.array(1.0))) / KNOTS
    return np.asarray(np.clip(clock(x)[..., None] / step - np.arange(KNOTS), 0.0, 1.0))
