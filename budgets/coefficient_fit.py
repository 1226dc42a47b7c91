"""The posterior of the cost model's coefficients from what was timed; `budgets.calibration` lays that out.

Measured seconds are y = (Σ_j e^{c_j + g_j + u} f_j) · e^ε with base seconds f_j, a log factor c_j of each driver, g_j
of its group where several go together (all of decoding), u of the whole set-up, and log noise ε ~ N(0, σ²). Each of
them is near what was known before on most machines and far from it on a few: a mixture of two Gaussians. The posterior
is a Gaussian around its mode (Laplace), found by Gauss–Newton with σ integrated out under its conjugate prior, which
makes the likelihood a Student t.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from budgets.coefficients import CONSTANTS, Coefficients
from budgets.work import Driver

NOISE_PRIOR_SD = 0.10
NOISE_PRIOR_WEIGHT = 4.0  # the prior of σ counts as much as so many measured phases
SETUP_LOG_SD = 0.30  # of a set-up's factor: the same workload takes × 1.2 to 1.6 in releases of one trainer
UNLIKE_LOG_SD = 1.0  # of the few that are unlike what was published, in one thing or as a whole
UNLIKE_SHARE = 0.2  # they are so many

Vector = NDArray[np.float64]

# The parameters: one for each driver, one for all drivers of a group that goes together, and one for the whole set-up.
DRIVERS = tuple(Driver)
GROUPS = tuple(group for group in CONSTANTS.values() if len(group) > 1)
PARTS: Vector = np.array(
    [[*(driver is each for each in DRIVERS), *(driver in group for group in GROUPS), True] for driver in DRIVERS],
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

    def seen(self, p: Vector) -> tuple[Vector, Vector]:
        """Return the residuals, and what of the seconds grows with each parameter."""
        times = np.exp(PARTS @ p)
        first, second = self.first * times, self.second * times
        slower = np.where((first.sum(axis=1) >= second.sum(axis=1))[:, None], first, second)
        seconds = slower.sum(axis=1)
        return self.log_seconds - np.log(seconds), slower / seconds[:, None] @ PARTS


@dataclass(frozen=True, slots=True)
class _Prior:
    """A mixture of two Gaussians for each: most machines are like those that were published, a few are not."""

    mean: Vector
    narrow: Vector
    wide: Vector

    @classmethod
    def of(cls, before: Coefficients) -> "_Prior":
        """Return the prior around what was known before."""
        own = np.array([before.log_covariance[driver, driver] for driver in Driver])
        shared = [own[[DRIVERS.index(each) for each in group]].min() / 2 for group in GROUPS]
        own -= PARTS[:, len(DRIVERS) : -1] @ shared
        narrow = np.sqrt([*own, *shared, SETUP_LOG_SD**2])
        mean = np.zeros(len(narrow))
        mean[: len(DRIVERS)] = [before.log_mean[driver] for driver in Driver]
        return cls(mean, narrow, np.maximum(narrow, UNLIKE_LOG_SD))

    def _densities(self, p: Vector) -> Vector:
        """Return the logarithms of both densities, of the narrow and of the wide Gaussian."""
        shares = np.log([1 - UNLIKE_SHARE, UNLIKE_SHARE])[:, None]
        sds = np.stack([self.narrow, self.wide])
        return np.asarray(shares - np.log(sds) - 0.5 * ((p - self.mean) / sds) ** 2)

    def unlikely(self, p: Vector) -> float:
        """Return -2 log density, up to a constant."""
        return float(-2 * np.logaddexp(*self._densities(p)).sum())

    def precision(self, p: Vector) -> Vector:
        """Return that of the Gaussian that touches the mixture there."""
        like, unlike = self._densities(p)
        share = np.exp(-np.logaddexp(0.0, unlike - like))
        return np.diag(share / self.narrow**2 + (1 - share) / self.wide**2)


def posterior(timings: Timings, before: Coefficients) -> tuple[Vector, Vector, float]:
    """Return mode and covariance of the log coefficients, and the noise.

    Seconds that are far from their price may be odd, or the price may be: of the modes that are found from the prior's
    mean and from what fits the seconds best the likelier one counts.
    """
    known = _Prior.of(before)
    fitting = _mode(timings, replace(known, narrow=known.wide), known.mean, NOISE_PRIOR_SD)
    modes = (_mode(timings, known, start) for start in (known.mean, fitting))
    p = min(modes, key=lambda mode: _unlikely(timings, known, mode))
    residual, jacobian = timings.seen(p)
    informing, precision = (jacobian.T * timings.weight) @ jacobian, known.precision(p)
    squares = NOISE_PRIOR_WEIGHT * NOISE_PRIOR_SD**2 + float(timings.weight @ residual**2)
    noise = math.sqrt(squares / (NOISE_PRIOR_WEIGHT + timings.shapes))
    # Of what was measured the coefficients take up a part, and only the rest tells of the noise.
    used = float(np.trace(np.linalg.solve(informing / noise**2 + precision, informing / noise**2)))
    noise = math.sqrt(squares / (NOISE_PRIOR_WEIGHT + max(0.0, timings.shapes - used)))
    return PARTS @ p, PARTS @ np.linalg.inv(informing / noise**2 + precision) @ PARTS.T, noise


def _unlikely(timings: Timings, known: _Prior, p: Vector, noise: float | None = None) -> float:
    """Return -2 log posterior, up to a constant, with the noise or with what is known of it."""
    residual, _ = timings.seen(p)
    squares = float(timings.weight @ residual**2)
    if noise is not None:
        return squares / noise**2 + known.unlikely(p)
    at_least = NOISE_PRIOR_WEIGHT * NOISE_PRIOR_SD**2
    return (NOISE_PRIOR_WEIGHT + timings.shapes) * math.log(at_least + squares) + known.unlikely(p)


def _mode(timings: Timings, known: _Prior, start: Vector, noise: float | None = None) -> Vector:
    """Find the nearest mode by damped Gauss–Newton."""
    p = start
    for _ in range(60):
        residual, jacobian = timings.seen(p)
        squares = NOISE_PRIOR_WEIGHT * NOISE_PRIOR_SD**2 + float(timings.weight @ residual**2)
        variance = noise**2 if noise is not None else squares / (NOISE_PRIOR_WEIGHT + timings.shapes)
        precision = known.precision(p)
        informing = (jacobian.T * timings.weight) @ jacobian / variance
        gradient = jacobian.T @ (timings.weight * residual) / variance - precision @ (p - known.mean)
        step, size = np.linalg.solve(informing + precision, gradient), 1.0
        now = _unlikely(timings, known, p, noise)
        while size > 1e-3 and _unlikely(timings, known, p + size * step, noise) > now:
            size /= 2
        p = p + size * step
        if float(np.abs(size * step).max()) < 1e-9:
            break
    return p
