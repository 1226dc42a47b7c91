"""Scores of predictions against what came: CRPS, errors, and how honest the intervals are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgets.errors import InputError

Vector = NDArray[np.float64]

LEVELS: Vector = (np.arange(100) + 0.5) / 100
"""The levels at which a predictive distribution is given: the middles of 100 equal parts."""

ROUNDING = 1e-9  # an interval that has shrunk to one value, as on a dead run, holds what equals it but for rounding


@dataclass(frozen=True)
class Errors:
    """Absolute errors of point predictions: their mean (MAE), median and 90th percentile."""

    mean: float
    median: float
    p90: float


@dataclass(frozen=True)
class Honesty:
    """How often central intervals held the truth, and how wide they were."""

    coverage: float
    mean_width: float


def crps_of_point(point: ArrayLike, truth: ArrayLike) -> Vector:
    """Return the absolute error: the CRPS of a prediction that names one value and no uncertainty."""
    return np.asarray(np.abs(np.asarray(point, dtype=float) - np.asarray(truth, dtype=float)))


def crps_of_quantiles(quantiles: ArrayLike, truth: ArrayLike, levels: ArrayLike = LEVELS) -> Vector:
    """Return 2 × the mean pinball loss over the levels, last axis (Gneiting and Ranjan 2011, eq. 17).

    The levels must be the middles of equal parts of (0, 1): then the mean is the midpoint rule of the integral.
    """
    q, y, p = (np.asarray(values, dtype=float) for values in (quantiles, truth, levels))
    if q.shape != (*y.shape, p.size):
        raise InputError(f"quantiles of shape {q.shape}: {p.size} levels of {y.shape} truths need {(*y.shape, p.size)}")
    below = q - y[..., None]
    return np.asarray(2 * np.mean(np.where(below >= 0, 1 - p, -p) * below, axis=-1))


def quantile(quantiles: ArrayLike, level: float, levels: ArrayLike = LEVELS) -> Vector:
    """Return one quantile of each prediction, linear between the nearest levels, the outermost beyond them."""
    q, p = np.asarray(quantiles, dtype=float), np.asarray(levels, dtype=float)
    upper = int(np.clip(np.searchsorted(p, level), 1, p.size - 1))
    share = float(np.clip((level - p[upper - 1]) / (p[upper] - p[upper - 1]), 0, 1))
    return np.asarray(q[..., upper - 1] * (1 - share) + q[..., upper] * share)


def errors(point: ArrayLike, truth: ArrayLike) -> Errors:
    """Summarise the absolute errors of point predictions."""
    absolute = crps_of_point(point, truth)
    if not absolute.size:
        raise InputError("no predictions to score: at least one is needed")
    return Errors(float(absolute.mean()), float(np.median(absolute)), float(np.quantile(absolute, 0.9)))


def honesty(low: ArrayLike, high: ArrayLike, truth: ArrayLike) -> Honesty:
    """Return the share of truths within their intervals, ends and rounding included, and the intervals' mean width."""
    lows, highs, y = (np.asarray(values, dtype=float) for values in (low, high, truth))
    if not y.size or not lows.shape == highs.shape == y.shape:
        raise InputError(f"intervals of shapes {lows.shape} and {highs.shape} for truths of shape {y.shape}: one each")
    slack = ROUNDING * (1 + np.abs(y))
    return Honesty(float(np.mean((lows - slack <= y) & (y <= highs + slack))), float(np.mean(highs - lows)))
