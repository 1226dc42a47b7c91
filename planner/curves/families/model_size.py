"""The log-linear law across model sizes (arXiv 2509.25300): fitted on small models, it predicts a larger one."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.base import Array, compute_values, require_variation

_MIDPOINTS = 200  # values of N_0 at which the profile is searched
_MARGINS = (1e-2, 1e3)  # N_0 lies between these multiples of the smallest and the largest model


@dataclass(frozen=True)
class ModelSizeFit:
    """log10 L = −k(N)·log10 X + E(N), k(N) = K_max/(1 + N_0/N), L = 1 − pass@1; `rss` is that of log10 L.

    E is a table, one value per size (arXiv 2509.25300, section 3): a new size needs a few early points of its own.
    """

    K_max: float
    N_0: float
    intercepts: Mapping[float, float]
    rss: float

    @property
    def parameters(self) -> dict[str, float]:
        """K_max, N_0 and the E of each size."""
        intercepts = {f"E[{size:g}]": value for size, value in self.intercepts.items()}
        return {"K_max": self.K_max, "N_0": self.N_0, **intercepts}

    def exponent(self, size: float) -> float:
        """Return k(N), how fast log10 L falls with log10 X."""
        return self.K_max * float(_share(_checked_size(size), self.N_0))

    def with_size(self, size: float, early: Curve) -> "ModelSizeFit":
        """Add a size with the E that fits a few early points of it best: the one parameter that compensates."""
        log_x, log_loss = _log_points(early)
        if not log_x.size:
            raise InputError(f"curve '{early.name}' has no point with x above 0: E of size {size:g} needs one")
        intercept = float((log_loss + self.exponent(size) * log_x).mean())
        return replace(self, intercepts={**self.intercepts, size: intercept})

    def scores(self, size: float, x: ArrayLike) -> Array:
        """Return pass@1 of a size at so much compute (or data, as the law was fitted)."""
        if size not in self.intercepts:
            known = ", ".join(f"{known:g}" for known in self.intercepts)
            raise InputError(f"the law has no E for size {size:g} (it has {known}): add it with with_size")
        values = compute_values(x)
        if not bool(np.all(values > 0)):
            raise InputError("the log-linear law says nothing about x = 0: give x above 0")
        return np.asarray(1 - 10 ** (self.intercepts[size] - self.exponent(size) * np.log10(values)), dtype=float)

    def predict(self, x: ArrayLike) -> Array:
        """Return pass@1 for pairs (size, X) in the last axis."""
        pairs = np.asarray(x, dtype=float)
        if pairs.ndim == 0 or pairs.shape[-1] != 2:
            raise InputError(f"x has the shape {pairs.shape}: give pairs (size, X) in the last axis")
        scores = [float(self.scores(float(size), value)) for size, value in pairs.reshape(-1, 2)]
        return np.array(scores).reshape(pairs.shape[:-1])


class ModelSizeLaw:
    """The family: mean squared error of log10 L, minimised over K_max, N_0 and one E per size."""

    name: ClassVar[str] = "log-linear across model sizes"

    def fit(self, curves: Mapping[float, Curve], /) -> ModelSizeFit:
        """Fit curves by model size (any unit, the same for all); needs at least two sizes."""
        if len(curves) < 2:
            raise InputError(f"curves of {len(curves)} model sizes: k(N) needs at least 2")
        sizes = np.array([_checked_size(size) for size in curves])
        moments = [_moments(curve) for curve in curves.values()]
        xx, xy, yy = (np.array(column) for column in zip(*((m.xx, m.xy, m.yy) for m in moments), strict=True))

        # Given N_0 the rest is linear: centring each size removes its E, and K_max is one ratio.
        def k_max(log_midpoint: float) -> float:
            shares = _share(sizes, math.exp(log_midpoint))
            return float(-(shares @ xy) / (shares**2 @ xx))

        def residual(log_midpoint: float) -> float:
            slopes = -k_max(log_midpoint) * _share(sizes, math.exp(log_midpoint))
            return float((yy - 2 * slopes * xy + slopes**2 * xx).sum())

        bounds = math.log(sizes.min() * _MARGINS[0]), math.log(sizes.max() * _MARGINS[1])
        found = _minimum(residual, *bounds)
        best = k_max(found)
        if best <= 0:
            raise InputError("scores fall with X in the curves of these sizes: the law needs learning curves that rise")
        slopes = best * _share(sizes, math.exp(found))
        intercepts = {
            size: m.mean_y + slope * m.mean_x for size, m, slope in zip(curves, moments, slopes.tolist(), strict=True)
        }
        return ModelSizeFit(best, math.exp(found), intercepts, max(0.0, residual(found)))


def fit_sizes(curves: Mapping[float, Curve]) -> ModelSizeFit:
    """Fit the law to curves by model size."""
    return ModelSizeLaw().fit(curves)


class _Moments(NamedTuple):
    mean_x: float
    mean_y: float
    xx: float
    xy: float
    yy: float


def _moments(curve: Curve) -> _Moments:
    """Return means and centred sums of products of (log10 X, log10 L)."""
    trained = curve.x > 0
    require_variation(Curve(curve.name, curve.x[trained], curve.y[trained], curve.bounded), "log-linear law", 2)
    log_x, log_loss = _log_points(curve)
    dx, dy = log_x - log_x.mean(), log_loss - log_loss.mean()
    return _Moments(float(log_x.mean()), float(log_loss.mean()), float(dx @ dx), float(dx @ dy), float(dy @ dy))


def _log_points(curve: Curve) -> tuple[Array, Array]:
    trained = curve.x > 0
    scores = curve.y[trained]
    if scores.size and (scores.min() < 0 or scores.max() >= 1):
        raise InputError(
            f"curve '{curve.name}' has scores from {scores.min():g} to {scores.max():g}: the law is about "
            "log(1 − score) and needs fractions of at least 0 and below 1; divide scores in percent by 100"
        )
    return np.log10(curve.x[trained]), np.log10(1 - scores)


def _share(sizes: ArrayLike, midpoint: float) -> Array:
    """Return k(N)/K_max."""
    return np.asarray(1 / (1 + midpoint / np.asarray(sizes, dtype=float)))


def _minimum(function: Callable[[float], float], lower: float, upper: float) -> float:
    """Return the minimum of a function of one variable: the best of a grid, refined between its neighbours."""
    grid = np.linspace(lower, upper, _MIDPOINTS)
    best = int(np.argmin([function(point) for point in grid]))
    neighbours = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, grid.size - 1)])
    return float(minimize_scalar(function, bounds=neighbours, method="bounded", options={"xatol": 1e-10}).x)


def _checked_size(size: float) -> float:
    if not (math.isfinite(size) and size > 0):
        raise InputError(f"model size {size}: give a number of parameters above 0")
    return float(size)
