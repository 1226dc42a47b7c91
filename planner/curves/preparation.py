"""Brings a batch of curves to one shape: a few dozen bins in log compute, their noise, and their scale.

Binning costs almost nothing of what a curve says (the mean function is smooth on the bins' width) and makes the
posterior's work independent of the number of points.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Curve, Vector

BINS = 24
NOISE_FLOOR = 0.01  # of the scale, and worth so many differences:
NOISE_FLOOR_WEIGHT = 3.0
# Standard errors that are known count as so many differences. Fixed problems scatter less than fresh ones would, seeds
# and templates add to it: many points may say otherwise.
GIVEN_WEIGHT = 30.0
LEAST_NOISE = 1e-4  # of the scale
BINOMIAL_SHARE = 0.7  # of the noise of bounded scores goes with p(1−p)
NEIGHBOURS = 3  # bins on either side that p is taken from


@dataclass(frozen=True)
class Prepared:
    """Bins of n curves as (n, m) arrays; the first column is the start (compute 0), empty bins have weight 0."""

    log_x: Vector
    score: Vector
    weight: Vector
    variance: Vector
    last_log_x: Vector
    noise_sd: Vector
    scale: Vector
    bounded: NDArray[np.bool_]

    @property
    def curves(self) -> int:
        """How many curves there are."""
        return len(self.last_log_x)

    def part(self, rows: slice) -> "Prepared":
        """Return some of the curves."""
        return Prepared(**{name: values[rows] for name, values in vars(self).items()})


def prepare(curves: Sequence[Curve], least_scale: float = 0.0) -> Prepared:
    """Bin the curves; log x is relative to each curve's last point, scores are in units of its scale.

    Without bounds that is what a curve has shown, or `least_scale` where others have shown more.
    """
    return Prepared(*map(np.array, zip(*(_prepared(curve, least_scale) for curve in curves), strict=True)))


def _prepared(curve: Curve, least: float) -> tuple[Vector, Vector, Vector, Vector, float, float, float, bool]:
    noise = _noise(curve)
    spread = float(np.ptp(curve.y)) if curve.y.size else 0.0
    # Later gains of scores without bounds are thought of in the spread of the scores so far.
    shown = max(spread - 2 * noise, 8 * noise, 1e-3 * float(np.abs(curve.y).max(initial=0.0)), 1e-9)
    scale = 1.0 if curve.bounded else max(shown, least)
    noise = max(noise, LEAST_NOISE * scale)
    log_x, score, weight, last = _bins(curve)
    variance = _bin_variance(score, weight, noise, bounded=curve.bounded) / scale**2
    return log_x, score / scale, weight, variance, last, noise / scale, scale, curve.bounded


def _bins(curve: Curve) -> tuple[Vector, Vector, Vector, float]:
    """Return each bin's log x relative to the last point, mean score and number of points, and the last log x.

    A point has its bin half by its place in log x and half by its rank, so that no bin takes nearly all points.
    """
    log_x = np.log(curve.x[curve.x > 0])
    last = float(log_x[-1]) if log_x.size else 0.0  # a run may have been scored before training alone
    relative, rank = log_x - last, np.arange(log_x.size)
    column = rank
    if rank.size >= BINS:
        along = 1 - relative / (relative[0] or -1.0)
        column = np.minimum(((0.5 * along + 0.5 * rank / rank.size) * (BINS - 1)).astype(int), BINS - 2)
    at_start = np.zeros(curve.x.size - rank.size, dtype=int)
    column = np.concatenate([at_start, 1 + column])
    weight = np.bincount(column, minlength=BINS).astype(float)
    filled = np.maximum(weight, 1.0)
    centre = np.bincount(column[at_start.size :], relative, minlength=BINS) / filled
    centre[0] = relative[0] if log_x.size else 0.0
    # Empty bins are put where the bin before them lies, so that no compute passes between the two.
    before = np.maximum.accumulate(np.where(weight > 0, np.arange(BINS), 0))
    return centre[before], np.bincount(column, curve.y, minlength=BINS) / filled, weight, last


def _noise(curve: Curve) -> float:
    """Estimate the noise of single scores from successive differences: half by their mean square, half by their median.

    The median forgives jumps, the mean square the many equal scores of a small evaluation. Standard errors that are
    given speak for few points, and many points correct them (over- and under-dispersion).
    """
    steps = np.sort(np.abs(np.diff(curve.y)))
    estimate = 0.0
    if steps.size:
        estimate = (float(np.mean(steps**2)) + (steps[steps.size // 2] / 0.6745) ** 2) / 4
    # Scores end at 1e150 as well: squares must not overflow.
    error_variance = (
        0.0 if curve.standard_errors is None else float(np.mean(np.minimum(curve.standard_errors, 1e150) ** 2))
    )
    spread = 1.0 if curve.bounded else float(np.ptp(curve.y)) if curve.y.size else 0.0
    expected, worth = (
        (error_variance, GIVEN_WEIGHT) if error_variance > 0 else ((NOISE_FLOOR * spread) ** 2, NOISE_FLOOR_WEIGHT)
    )
    return math.sqrt((steps.size * estimate + worth * expected) / (steps.size + worth))


def _bin_variance(score: Vector, weight: Vector, noise: float, *, bounded: bool) -> Vector:
    """Share a curve's noise out over its bins: partly as p(1−p) where scores are pass rates, else evenly; ∞ if empty.

    A pass rate near 0 or 1 scatters little, and one in the middle much, in the same curve. p is taken from the
    neighbourhood and drawn towards the middle, so that neither one lucky score nor a row of zeros passes for certainty.
    """
    relative: Vector | float = 1.0
    if bounded:
        around = np.ones(2 * NEIGHBOURS + 1)
        number, sums = (np.convolve(values, around, mode="same") for values in (weight, weight * np.clip(score, 0, 1)))
        p = (sums + 0.5) / (number + 1.0)
        pass_rate = p * (1 - p)
        mean = (weight * pass_rate).sum() / max(weight.sum(), 1.0)
        relative = BINOMIAL_SHARE * pass_rate / mean + 1 - BINOMIAL_SHARE
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(weight > 0, noise**2 * relative / weight, np.inf))
