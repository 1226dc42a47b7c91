"""The saturating power law, the usual alternative to the sigmoid and its limit at large compute."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.base import Array, compute_values, require_variation, score_limits
from planner.curves.families.separable import SeparableModel, fit_separable

_EXPONENTS = (0.01, 10.0)
_STARTS = 40


@dataclass(frozen=True)
class PowerLawFit:
    """R(C) = A − D/C^B (arXiv 2510.13786, appendix A.4); `gap` is D/C^B at `reference`, the first compute."""

    A: float
    B: float
    gap: float
    reference: float
    rss: float

    @property
    def parameters(self) -> dict[str, float]:
        """A, B and D."""
        with np.errstate(over="ignore"):
            return {"A": self.A, "B": self.B, "D": float(self.gap * np.power(self.reference, self.B))}

    def predict(self, x: ArrayLike) -> Array:
        """Return the scores at so much compute, which must lie above 0: the law has no start."""
        values = compute_values(x)
        if not bool(np.all(values > 0)):
            raise InputError("the power law says nothing about compute 0: give x above 0")
        with np.errstate(over="ignore"):
            # Without the clip a flat law (gap 0) would give 0·∞ far below the first point.
            decay = np.exp(np.minimum(-self.B * (np.log(values) - math.log(self.reference)), 700.0))
            return np.asarray(self.A - self.gap * decay, dtype=float)


@dataclass(frozen=True)
class PowerLaw:
    """The power law family; points before training (x = 0) are left out."""

    robust: bool = False
    name: ClassVar[str] = "power law"

    def fit(self, curve: Curve, /) -> PowerLawFit:
        """Return the least-squares fit to all points with compute above 0."""
        trained = curve.x > 0
        used = Curve(curve.name, curve.x[trained], curve.y[trained], curve.bounded)
        require_variation(used, "power law", 3)
        origin, unit = float(used.y.min()), float(np.ptp(used.y))
        low, high = ((limit - origin) / unit for limit in score_limits(used))
        reference = float(used.x[0])
        model = SeparableModel(
            basis=_basis,
            starts=np.log(np.geomspace(*_EXPONENTS, _STARTS))[:, np.newaxis],
            theta_bounds=(np.log(_EXPONENTS[:1]), np.log(_EXPONENTS[1:])),
            coefficient_bounds=(np.array([low, low - high]), np.array([high, high - low])),
        )
        logs = np.log(used.x) - math.log(reference)
        found = fit_separable(model, logs, (used.y - origin) / unit, robust=self.robust)
        asymptote, gap = (float(value) for value in found.coefficients)
        return PowerLawFit(
            origin + unit * asymptote, math.exp(found.theta[0]), unit * gap, reference, found.rss * unit**2
        )


def _basis(theta: Array, log_x: Array) -> Array:
    """Return the weights of A and of the gap at the first compute, for θ = (log B)."""
    decay = np.exp(-np.exp(theta) * log_x)
    return np.stack([np.ones_like(decay), -decay], axis=-1)
