"""The laws of one curve: the sigmoid of ScaleRL and the saturating power law, its limit at large compute.

R(C) = R0 + (A − R0) / (1 + (C_mid/C)^B) and R(C) = A − D/C^B (arXiv 2510.13786, section 3 and appendix A.4).
"""

import math
from typing import NamedTuple, Self

import numpy as np
from scipy.special import expit

from planner.curves.curve import Curve, Vector
from planner.curves.families.draws import (
    Drawn,
    LawDraws,
    Separable,
    effective_points,
    interval,
    require_variation,
)

_BOUNDED_REACH, _UNBOUNDED_REACH = 1e4, 10.0  # how many ranges of the scores a start or a ceiling may lie beyond them
_SLOWEST, _STEEPEST = 0.05, 20.0  # B of the sigmoid
_STARTS = (7, 24)  # values of B, and of log C_mid
_EXPONENTS, _EXPONENT_STARTS = (0.01, 10.0), 40  # B of the power law


class _Scaled(NamedTuple):
    """A curve in units of its range, so that tolerances mean the same for every metric, and where R0 and A may be."""

    curve: Curve
    origin: float
    unit: float
    low: float
    high: float

    @classmethod
    def of(cls, curve: Curve, family: str) -> Self:
        require_variation(curve, family, 4)
        low, high = float(curve.y.min()), float(curve.y.max())
        unit = high - low
        ends = low - _UNBOUNDED_REACH * unit, high + _UNBOUNDED_REACH * unit
        if curve.bounded:
            ends = max(0.0, low - _BOUNDED_REACH * unit), min(1.0, high + _BOUNDED_REACH * unit)
        return cls(curve, low, unit, *((end - low) / unit for end in ends))

    @property
    def y(self) -> Vector:
        return (self.curve.y - self.origin) / self.unit

    def law(self, parameters: dict[str, Vector], problem: Separable, drawn: Drawn, reference: float = 0.0) -> LawDraws:
        """Return the law from the draws of a problem whose inputs are log x beyond a reference."""

        def scores(x: Vector) -> Vector:
            return self.origin + self.unit * problem.values(drawn.points, np.log(x) - reference)

        doubts = _doubts(self.curve, parameters["A"], drawn.levels, self.unit * drawn.residuals)
        return LawDraws(parameters, {"": scores}, self.unit * drawn.noise_sd, doubts, levels=drawn.levels)


def draw_sigmoid(curve: Curve) -> LawDraws:
    """Return what R0, A, B and C_mid may be, if the curve is a sigmoid."""
    scaled = _Scaled.of(curve, "sigmoid")
    with np.errstate(divide="ignore"):  # before training
        problem = sigmoid(np.log(curve.x), scaled.y, (scaled.low, scaled.high))
    drawn = problem.draw()
    steepness, midpoint, start, asymptote = drawn.points.T
    ends = {"R0": scaled.origin + scaled.unit * start, "A": scaled.origin + scaled.unit * asymptote}
    return scaled.law(ends | {"B": np.exp(steepness), "C_mid": np.exp(midpoint)}, problem, drawn)


def sigmoid(log_x: Vector, y: Vector, limits: tuple[float, float], steepest: float = _STEEPEST) -> Separable:
    """Return the problem of (log B, log C_mid, R0, A), C_mid from a tenth of the first x to a hundred times the last.

    `limits` are those of R0 and A.
    """
    first, last = float(log_x[np.isfinite(log_x)].min()), float(log_x.max())
    steepness = np.log(np.geomspace(0.3, min(8.0, steepest), _STARTS[0]))
    midpoints = np.linspace(first, last + math.log(10), _STARTS[1])
    return Separable(
        basis=_sigmoid_basis,
        inputs=log_x,
        y=y,
        starts=np.stack(np.meshgrid(steepness, midpoints), axis=-1).reshape(-1, 2),
        bounds=(
            np.array([math.log(_SLOWEST), max(first - math.log(10), -690.0), limits[0], limits[0]]),
            np.array([math.log(steepest), last + math.log(100), limits[1], limits[1]]),
        ),
    )


def _sigmoid_basis(theta: Vector, log_x: Vector) -> Vector:
    """Return the weights of R0 and A at each point, for θ = (log B, log C_mid)."""
    gained = expit(np.exp(theta[:, :1]) * (log_x - theta[:, 1:]))
    return np.stack([1 - gained, gained], axis=-1)


def draw_power_law(curve: Curve) -> LawDraws:
    """Return what A, B and D may be; points before training (x = 0) are left out."""
    scaled = _Scaled.of(curve.where(curve.x > 0), "power law")
    reference, gap = math.log(scaled.curve.x[0]), scaled.high - scaled.low
    problem = Separable(
        basis=_power_basis,
        inputs=np.log(scaled.curve.x) - reference,
        y=scaled.y,
        starts=np.log(np.geomspace(*_EXPONENTS, _EXPONENT_STARTS))[:, np.newaxis],
        bounds=(
            np.array([math.log(_EXPONENTS[0]), scaled.low, -gap]),
            np.array([math.log(_EXPONENTS[1]), scaled.high, gap]),
        ),
    )
    drawn = problem.draw()
    exponent, asymptote = np.exp(drawn.points[:, 0]), scaled.origin + scaled.unit * drawn.points[:, 1]
    with np.errstate(over="ignore"):
        decline = scaled.unit * drawn.points[:, 2] * np.exp(np.minimum(exponent * reference, 700.0))
    return scaled.law({"A": asymptote, "B": exponent, "D": decline}, problem, drawn, reference)


def _power_basis(theta: Vector, log_x: Vector) -> Vector:
    """Return the weights of A and of the gap at the first compute, for θ = (log B)."""
    # The cap keeps a law without a gap from 0·∞ far below the first point.
    decay = np.exp(np.minimum(-np.exp(theta) * log_x, 700.0))
    return np.stack([np.ones_like(decay), -decay], axis=-1)


def _doubts(curve: Curve, asymptote: Vector, levels: Vector, residuals: Vector) -> tuple[str, ...]:
    """Return why a curve does not say where it ends: it has not risen by more than noise, or A may be far above it."""
    effective = effective_points(residuals)
    changes = float(((curve.y - curve.y.mean()) ** 2).sum())
    left = max(float(residuals @ residuals), 1e-12 * changes)
    if effective * np.log(changes / left) < 3 * np.log(max(effective, 2)):
        return ("the scores do not change by more than their noise",)
    _, low, high = (float(each) for each in interval(asymptote, levels))
    tenth = max(1, curve.y.size // 10)
    change = float(curve.y[-tenth:].mean() - curve.y[:tenth].mean())
    if curve.bounded and change < 0:
        return ("the scores fall, and the law is one of learning",)
    if high - low <= abs(change) / 2:
        return ()
    reason = f"that is vaguer than half of the change seen ({abs(change):.2g})"
    return (f"A may lie between {low:.3g} and {high:.3g}: {reason}",)
