"""The posterior of the cost model's coefficients from what was timed; `budgets.calibration` lays that out.

Measured seconds are y = (Σ_j e^{c_j + g_j + u} f_j) · e^ε with base seconds f_j, a log factor c_j of each driver, g_j
of its group where several go together (all of decoding), u of the whole set-up, and log noise ε ~ N(0, σ²). Each of
them is near what was known before on most machines and far from it on a few: a Student t. The posterior is a Gaussian
around its mode (Laplace), found by Gauss–Newton with σ integrated out under its conjugate prior, which makes the
likelihood a Student t too.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgets.coefficients import CONSTANTS, Coefficients
from budgets.work import Driver

NOISE_PRIOR_SD = 0.10
NOISE_PRIOR_WEIGHT = 4.0  # the prior of σ counts as much as so many measured phases
SETUP_LOG_SD = 0.30  # of a set-up's factor: the same workload takes × 1.2 to 1.6 in releases of one trainer
TAIL = 4.0  # degrees of freedom of the priors, as of the widths that the fit to published runs writes

Vector = NDArray[np.float64]

# The parameters: one for each driver, one for all drivers of a group that goes together, and one for the whole set-up.
DRIVERS = tuple(Driver)
GROUPS = tuple(group for group in CONSTANTS.values() if len(group) > 1)
PARTS: Vector = np.array(
    [[*(driver is other for other in DRIVERS), *(driver in group for group in GROUPS), True] for driver in DRIVERS],
    dtype=float,
)


@dataclass(frozen=True, slots=True)
class Timings:
    """What was timed, a row each: base seconds by driver of the two sides that may have taken it; the slower counts."""

    first: Vector
    second: Vector  # zeros, but for whole steps of asynchronous training
    log_seconds: Vector
    weight: Vector  # of a row, in units of 1/σ²
    shapes: float  # rows that tell something of their own

    def residuals(self, p: Vector) -> tuple[Vector, Vector]:
        """Return the residuals, and what of the seconds grows with each parameter."""
        times = np.exp(PARTS @ p)
        first, second = self.first * times, self.second * times
        slower = np.where((first.sum(axis=1) >= second.sum(axis=1))[:, None], first, second)
        seconds = slower.sum(axis=1)
        return self.log_seconds - np.log(seconds), slower / seconds[:, None] @ PARTS


def posterior(timings: Timings, before: Coefficients) -> tuple[Vector, Vector, float]:
    """Return mode and covariance of the log coefficients, and the noise."""
    # The parameters' means and widths beforehand: most machines are like those that were published, a few are not.
    variances = np.array([before.log_covariance[driver, driver] for driver in Driver])
    shared = [variances[[DRIVERS.index(driver) for driver in group]].min() / 2 for group in GROUPS]
    variances -= PARTS[:, len(DRIVERS) : -1] @ shared
    mean = np.array([*(before.log_mean[driver] for driver in Driver), *(0.0 for _ in GROUPS), 0.0])
    sd = np.sqrt([*variances, *shared, SETUP_LOG_SD**2])
    p = _mode(timings, mean, sd)
    squares, informing, _ = _sum_of_squares(timings, p)
    precision, noise = _precision(p, mean, sd), math.sqrt(squares / (NOISE_PRIOR_WEIGHT + timings.shapes))
    # Of what was measured the coefficients take up a part, and only the rest tells of the noise.
    used = float(np.trace(np.linalg.solve(informing / noise**2 + precision, informing / noise**2)))
    noise = math.sqrt(squares / (NOISE_PRIOR_WEIGHT + max(0.0, timings.shapes - used)))
    return PARTS @ p, PARTS @ np.linalg.inv(informing / noise**2 + precision) @ PARTS.T, noise


def _sum_of_squares(timings: Timings, p: Vector) -> tuple[float, Vector, Vector]:
    """Return the sum of squares with its prior's, and curvature and slope of the squares, at unit noise."""
    residual, jacobian = timings.residuals(p)
    weighted = jacobian.T * timings.weight
    squares = NOISE_PRIOR_WEIGHT * NOISE_PRIOR_SD**2 + float(timings.weight @ residual**2)
    return squares, weighted @ jacobian, weighted @ residual


def _precision(p: Vector, mean: Vector, sd: Vector) -> Vector:
    """Return that of the Gaussian that touches the prior there."""
    return np.diag((TAIL + 1) / (TAIL * sd**2 + (p - mean) ** 2))


def _mode(timings: Timings, mean: Vector, sd: Vector) -> Vector:
    """Find the mode by damped Gauss–Newton."""

    def unlikely(p: Vector) -> float:
        prior = (TAIL + 1) * float(np.log1p(((p - mean) / sd) ** 2 / TAIL).sum())
        return weight * math.log(_sum_of_squares(timings, p)[0]) + prior

    p, weight = mean, NOISE_PRIOR_WEIGHT + timings.shapes
    for _ in range(60):
        squares, informing, slope = _sum_of_squares(timings, p)
        precision, variance = _precision(p, mean, sd), squares / weight
        gradient = slope / variance - precision @ (p - mean)
        step, size, now = np.linalg.solve(informing / variance + precision, gradient), 1.0, unlikely(p)
        while size > 1e-3 and unlikely(p + size * step) > now:
            size /= 2
        p = p + size * step
        if float(np.abs(size * step).max()) < 1e-9:
            break
    return p
