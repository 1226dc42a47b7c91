"""The sigmoid in log compute of ScaleRL (Khatri, Madaan et al., arXiv 2510.13786), as a point fit."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.base import Array, compute_values, require_variation, score_limits
from planner.curves.families.separable import SeparableModel, fit_separable

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

    def compute_at_gain(self, fraction: float) -> float:
        """Return the compute at which a fraction f of the gain is reached: C_mid·(f/(1−f))^(1/B)."""
        if not 0 < fraction < 1:
            raise InputError(f"gain fraction {fraction}: it must lie between 0 and 1, both excluded")
        return self.C_mid * float((fraction / (1 - fraction)) ** (1 / self.B))


def gain(x: Array, B: float, C_mid: float) -> Array:
    """Return the fraction of the gain at compute x: 1/(1 + (C_mid/x)^B), 0 before training."""
    trained = x > 0
    logs = np.log(x, where=trained, out=np.zeros_like(x))
    return np.where(trained, expit(B * (logs - math.log(C_mid))), 0.0)


@dataclass(frozen=True)
class Sigmoid:
    """The sigmoid family; `start_score` and `asymptote` fix R0 and A, `limits` bounds both where they are fitted."""

    robust: bool = False
    start_score: float | None = None
    asymptote: float | None = None
    limits: tuple[float, float] | None = None
    steepest: float = 20.0
    name: ClassVar[str] = "sigmoid"

    def fit(self, curve: Curve, /) -> SigmoidFit:
        """Return the least-squares fit to all points, which weigh the same, as in the literature."""
        given = (self.start_score, self.asymptote)
        if not all(value is None or math.isfinite(value) for value in given):
            raise InputError(f"start score {given[0]} and asymptote {given[1]}: give finite scores, or leave them out")
        require_variation(curve, "sigmoid", 2 + given.count(None))
        # Scores are fitted in units of their range, so that tolerances mean the same for every metric.
        origin, unit = float(curve.y.min()), float(np.ptp(curve.y))
        with np.errstate(divide="ignore"):
            log_x = np.log(curve.x)
        model = SeparableModel(
            basis=_basis,
            starts=self._starts(log_x),
            theta_bounds=_theta_bounds(log_x, self.steepest),
            coefficient_bounds=self._coefficient_bounds(curve, origin, unit),
            fixed={index: (value - origin) / unit for index, value in enumerate(given) if value is not None},
        )
        found = fit_separable(model, log_x, (curve.y - origin) / unit, robust=self.robust)
        start, asymptote = (float(origin + unit * value) for value in found.coefficients)
        steepness, midpoint = (math.exp(value) for value in found.theta)
        return SigmoidFit(start, asymptote, steepness, midpoint, found.rss * unit**2)

    def _starts(self, log_x: Array) -> Array:
        finite = log_x[np.isfinite(log_x)]
        steepness = np.log(np.geomspace(0.3, min(8.0, self.steepest), _STARTS[0]))
        midpoints = np.linspace(finite.min(), finite.max() + math.log(10), _STARTS[1])
        return np.stack(np.meshgrid(steepness, midpoints), axis=-1).reshape(-1, 2)

    def _coefficient_bounds(self, curve: Curve, origin: float, unit: float) -> tuple[Array, Array]:
        low, high = score_limits(curve) if self.limits is None else self.limits
        return np.full(2, (low - origin) / unit), np.full(2, (high - origin) / unit)


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
