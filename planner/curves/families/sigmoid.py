"""The sigmoid in log compute of ScaleRL (Khatri, Madaan et al., arXiv 2510.13786), as a point fit and as draws."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from planner.curves.curve import Curve
from planner.curves.families.base import (
    Array,
    LawDraws,
    compute_values,
    doubts_of_a_rise,
    effective_points,
    require_variation,
    score_limits,
)
from planner.curves.families.separable import SeparableModel, draw_separable, fit_separable

_SLOWEST = 0.05
_STARTS = (7, 24)  # values of B, and of log C_mid


@dataclass(frozen=True)
class SigmoidFit:
    """R(C) = R0 + (A − R0) / (1 + (C_mid/C)^B), the literature's names kept (arXiv 2510.13786, section 3)."""

    R0: float
    A: float
    B: float
    C_mid: float
    rss: float

    @property
    def parameters(self) -> dict[str, float]:
        """R0, A, B and C_mid."""
        return {"R0": self.R0, "A": self.A, "B": self.B, "C_mid": self.C_mid}

    def predict(self, x: ArrayLike) -> Array:
        """Return the scores at so much compute."""
        gained = gain(compute_values(x), self.B, self.C_mid)
        return self.R0 * (1 - gained) + self.A * gained


def gain(x: Array, B: float, C_mid: float) -> Array:
    """Return the fraction of the gain at compute x: 1/(1 + (C_mid/x)^B), 0 before training."""
    trained = x > 0
    logs = np.log(x, where=trained, out=np.zeros_like(x))
    return np.where(trained, expit(B * (logs - math.log(C_mid))), 0.0)


@dataclass(frozen=True)
class Sigmoid:
    """The sigmoid family; `limits` bounds R0 and A, which by default lie where the scores may."""

    limits: tuple[float, float] | None = None
    steepest: float = 20.0

    def fit(self, curve: Curve, /) -> SigmoidFit:
        """Return the least-squares fit to all points, which weigh the same, as in the literature."""
        problem = self._problem(curve)
        found = fit_separable(problem.model, problem.log_x, problem.y)
        start, asymptote = (float(problem.origin + problem.unit * value) for value in found.coefficients)
        steepness, midpoint = (math.exp(value) for value in found.theta)
        return SigmoidFit(start, asymptote, steepness, midpoint, found.rss * problem.unit**2)

    def draw(self, curve: Curve, /) -> LawDraws:
        """Return what R0, A, B and C_mid may be, if the curve is a sigmoid."""
        problem = self._problem(curve)
        model, log_x, y, origin, unit = problem
        found = fit_separable(model, log_x, y)
        drawn = draw_separable(model, log_x, y, found, effective_points([found.residuals]))

        def scores(x: Array) -> Array:
            with np.errstate(divide="ignore"):
                return origin + unit * drawn.values(_basis, np.log(compute_values(x)))

        (start, asymptote), (steepness, midpoint) = drawn.coefficients.T, drawn.theta.T
        found_a = origin + unit * asymptote
        return LawDraws(
            {"R0": origin + unit * start, "A": found_a, "B": np.exp(steepness), "C_mid": np.exp(midpoint)},
            {"": scores},
            unit * drawn.noise_sd,
            tuple(doubts_of_a_rise(curve, found_a, drawn.levels, unit * found.residuals)),
            levels=drawn.levels,
        )

    def _problem(self, curve: Curve) -> "_Problem":
        require_variation(curve, "sigmoid", 4)
        # Scores are fitted in units of their range, so that tolerances mean the same for every metric.
        origin, unit = float(curve.y.min()), float(np.ptp(curve.y))
        with np.errstate(divide="ignore"):
            log_x = np.log(curve.x)
        low, high = score_limits(curve) if self.limits is None else self.limits
        model = SeparableModel(
            basis=_basis,
            starts=self._starts(log_x),
            theta_bounds=_theta_bounds(log_x, self.steepest),
            coefficient_bounds=(np.full(2, (low - origin) / unit), np.full(2, (high - origin) / unit)),
        )
        return _Problem(model, log_x, (curve.y - origin) / unit, origin, unit)

    def _starts(self, log_x: Array) -> Array:
        finite = log_x[np.isfinite(log_x)]
        steepness = np.log(np.geomspace(0.3, min(8.0, self.steepest), _STARTS[0]))
        midpoints = np.linspace(finite.min(), finite.max() + math.log(10), _STARTS[1])
        return np.stack(np.meshgrid(steepness, midpoints), axis=-1).reshape(-1, 2)


class _Problem(NamedTuple):
    model: SeparableModel
    log_x: Array
    y: Array
    origin: float
    unit: float


def _basis(theta: Array, log_x: Array) -> Array:
    """Return the weights of R0 and A at each point, for θ = (log B, log C_mid)."""
    gained = expit(np.exp(theta[:, :1]) * (log_x - theta[:, 1:]))
    return np.stack([1 - gained, gained], axis=-1)


def _theta_bounds(log_x: Array, steepest: float) -> tuple[Array, Array]:
    """Allow midpoints from a tenth of the first compute to a hundred times the last."""
    finite = log_x[np.isfinite(log_x)]
    lower = max(float(finite.min()) - math.log(10), -690.0)
    return (
        np.array([math.log(_SLOWEST), lower]),
        np.array([math.log(steepest), float(finite.max()) + math.log(100)]),
    )
