"""The saturating power law A − D/C^B, the usual alternative to the sigmoid and its limit at large compute."""

import math

import numpy as np

from budgets.errors import InputError
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

_EXPONENTS = (0.01, 10.0)
_STARTS = 40


def draw_power_law(curve: Curve) -> LawDraws:
    """Return what A, B and D may be (arXiv 2510.13786, appendix A.4); points before training (x = 0) are left out."""
    trained = curve.x > 0
    used = Curve(curve.name, curve.x[trained], curve.y[trained], curve.bounded)
    require_variation(used, "power law", 4)
    origin, unit = float(used.y.min()), float(np.ptp(used.y))
    low, high = ((limit - origin) / unit for limit in score_limits(used))
    reference = math.log(used.x[0])
    model = SeparableModel(
        basis=_basis,
        starts=np.log(np.geomspace(*_EXPONENTS, _STARTS))[:, np.newaxis],
        theta_bounds=(np.log(_EXPONENTS[:1]), np.log(_EXPONENTS[1:])),
        coefficient_bounds=(np.array([low, low - high]), np.array([high, high - low])),
    )
    logs, y = np.log(used.x) - reference, (used.y - origin) / unit
    found = fit_separable(model, logs, y)
    drawn = draw_separable(model, logs, y, found, effective_points([found.residuals]))

    def scores(x: Array) -> Array:
        values = compute_values(x)
        if not bool(np.all(values > 0)):
            raise InputError("the power law says nothing about compute 0: give x above 0")
        return origin + unit * drawn.values(_basis, np.log(values) - reference)

    asymptote, exponent = origin + unit * drawn.coefficients[:, 0], np.exp(drawn.theta[:, 0])
    with np.errstate(over="ignore"):
        decline = unit * drawn.coefficients[:, 1] * np.exp(np.minimum(exponent * reference, 700.0))
    doubts = doubts_of_a_rise(used, asymptote, drawn.levels, unit * found.residuals)
    return LawDraws(
        {"A": asymptote, "B": exponent, "D": decline},
        {"": scores},
        unit * drawn.noise_sd,
        tuple(doubts),
        levels=drawn.levels,
    )


def _basis(theta: Array, log_x: Array) -> Array:
    """Return the weights of A and of the gap at the first compute, for θ = (log B)."""
    # The cap keeps a law without a gap from 0·∞ far below the first point.
    decay = np.exp(np.minimum(-np.exp(theta) * log_x, 700.0))
    return np.stack([np.ones_like(decay), -decay], axis=-1)
