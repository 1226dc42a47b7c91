"""What people do today to see where a learning curve ends: the peers of bench/extrapolation.py.

The peers are helped where they can be: levels and predictions of bounded scores are kept within [0, 1], those of others
within three times the range seen so far. Where a fit fails, or its covariance is not finite, the last value is
predicted, as a point.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import curve_fit
from scipy.stats import norm

from planner.curves.curve import Curve, Vector

LEVELS: Vector = (np.arange(100) + 0.5) / 100  # of quantiles: the middles of 100 equal parts
FREE_MARGIN = 3.0
PUBLISHED_SKIP = 0.015  # 1.5k of the 100k GPU-hours
PUBLISHED_MIDDLES = (0.001, 0.4)  # 100 to 40,000 of the 100k GPU-hours
PUBLISHED_ASYMPTOTES = (0.45, 0.80)


@dataclass(frozen=True)
class Prediction:
    """A value, and where the method knows its uncertainty the quantiles at LEVELS."""

    point: float
    quantiles: Vector | None = None


Method = Callable[[Sequence[Curve], Sequence[float]], list[Prediction]]
Single = Callable[[Curve, float], Prediction]


def each(predict: Single) -> Method:
    """Turn a method for one curve into one for many."""
    return lambda curves, at: [predict(curve, x) for curve, x in zip(curves, at, strict=True)]


def last_value(curve: Curve, at: float) -> Prediction:
    """Predict that it stays at the last score."""
    return Prediction(float(curve.y[-1]))


def power_law(curve: Curve, at: float) -> Prediction:
    """Fit A − D·C^−B by least squares, with the Wald interval of the fit's covariance."""

    def form(x: Vector, asymptote: float, deficit: float, exponent: float) -> Vector:
        return np.asarray(asymptote - deficit * x**-exponent)

    low, high = _score_bounds(curve)
    start = (curve.y.max(), np.ptp(curve.y) / 2, 0.5)
    return _wald(form, curve, at, start, ((low, -np.inf, 0.01), (high, np.inf, 5.0)))


def sigmoid(curve: Curve, at: float) -> Prediction:
    """Fit R0 + (A − R0)/(1 + (C_mid/C)^B) by least squares, with the Wald interval of the fit's covariance."""

    def form(x: Vector, start: float, asymptote: float, exponent: float, middle: float) -> Vector:
        return np.asarray(start + (asymptote - start) / (1 + (middle / x) ** exponent))

    low, high = _score_bounds(curve)
    start = (curve.y[0], curve.y.max(), 1.0, 0.5)
    return _wald(form, curve, at, start, ((low, low, 0.05, 1e-4), (high, high, 10.0, 100.0)))


def published_grid(full: bool) -> Single:
    """Return ScaleRL's fit (arXiv 2510.13786, A.5): `curve_fit` finds B at each A and C_mid of a grid, the best wins.

    The published grid has A from 0.45 to 0.80 in steps of 0.005 and 100 C_mid on a line from 100 to 40,000 GPU-hours,
    after a cut of 1,500: here as shares of the run's length, which in the paper was 100,000. `full` takes that grid,
    otherwise A goes in steps of 0.05 with 20 C_mid. R0, not searched there either, is the first score. The grid is made
    for pass rates: on other scales the last value is predicted. It gives no interval.
    No flat curve and no B below 0 is refused: both help it here, and a peer is not to be weakened.
    """
    asymptotes = np.linspace(*PUBLISHED_ASYMPTOTES, 71 if full else 8)
    middles = np.linspace(*PUBLISHED_MIDDLES, 100 if full else 20)

    def predict(curve: Curve, at: float) -> Prediction:
        if not curve.bounded:
            return last_value(curve, at)
        kept = curve.x > max(0.0, PUBLISHED_SKIP * at)
        if kept.sum() < 3:
            kept = curve.x > 0
        fit = _best_on_grid(curve.x[kept] / at, curve.y[kept], float(curve.y[0]), asymptotes, middles)
        return last_value(curve, at) if fit is None else Prediction(fit)

    return predict


def _best_on_grid(x: Vector, y: Vector, start: float, asymptotes: Vector, middles: Vector) -> float | None:
    """Return the value at x = 1 of the grid's best curve, None when no B was found at all."""
    best, value = np.inf, None
    for asymptote in asymptotes:
        for middle in middles:
            form = _steepness_form(start, asymptote, middle)
            try:
                with warnings.catch_warnings(action="ignore"):
                    (exponent,), _ = curve_fit(form, x, y)
                    squares = float(np.sum((form(x, exponent) - y) ** 2))
                    end = float(form(np.ones(1), exponent)[0])
            except RuntimeError:  # no convergence at this cell
                continue
            if squares < best:
                best, value = squares, end
    return value


def _steepness_form(start: float, asymptote: float, middle: float) -> Callable[[Vector, float], Vector]:
    return lambda x, exponent: start + (asymptote - start) / (1 + (middle / x) ** exponent)


def _score_bounds(curve: Curve) -> tuple[float, float]:
    """Return where levels of a fit may lie: [0, 1], or FREE_MARGIN times the range that was seen to either side."""
    if curve.bounded:
        return 0.0, 1.0
    margin = FREE_MARGIN * max(float(np.ptp(curve.y)), 1e-6)
    return float(curve.y.min()) - margin, float(curve.y.max()) + margin


def _wald(
    form: Callable[..., Vector],
    curve: Curve,
    at: float,
    start: Sequence[float],
    bounds: tuple[Sequence[float], Sequence[float]],
) -> Prediction:
    """Fit over x ÷ the last x, and spread the prediction by its gradient through the covariance of the parameters."""
    training = curve.x > 0  # both forms are undefined at 0
    unit = curve.x[-1]
    if not unit > 0:
        return last_value(curve, at)
    inside = [np.clip(value, low, high) for value, low, high in zip(start, *bounds, strict=True)]
    try:
        with warnings.catch_warnings(action="ignore"):
            x, y = curve.x[training] / unit, curve.y[training]
            parameters, covariance = curve_fit(form, x, y, p0=inside, bounds=bounds)
            point, gradient = _value_and_gradient(form, at / unit, parameters)
            sd = float(np.sqrt(gradient @ covariance @ gradient))
    except (RuntimeError, ValueError):  # no convergence, or numbers that overflow
        return last_value(curve, at)
    if not (np.isfinite(point) and np.isfinite(sd)):
        return last_value(curve, at)
    quantiles = point + sd * norm.ppf(LEVELS)
    low, high = _score_bounds(curve)
    return Prediction(float(np.clip(point, low, high)), np.clip(quantiles, low, high))


def _value_and_gradient(form: Callable[..., Vector], x: float, parameters: Vector) -> tuple[float, Vector]:
    at = np.array([x])
    steps = np.diag(1e-5 * np.maximum(np.abs(parameters), 1e-3))
    rises = [float((form(at, *(parameters + step)) - form(at, *(parameters - step)))[0]) for step in steps]
    return float(form(at, *parameters)[0]), np.array(rises) / (2 * np.diag(steps))
