"""Least squares for models that are linear in some of their parameters, from many deterministic starts."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import least_squares

from planner.curves.families.base import Array

_START_POINTS = 256  # a start need not see every point
_POLISHED_STARTS = 4
_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class SeparableModel:
    """y = Σ_j c_j·φ_j(inputs; θ) within bounds; coefficients in `fixed` are given, by position.

    `basis` maps θ of shape (starts, p) and inputs of shape (points, …) to φ of shape (starts, points, coefficients).
    """

    basis: Callable[[Array, Array], Array]
    starts: Array
    theta_bounds: tuple[Array, Array]
    coefficient_bounds: tuple[Array, Array]
    fixed: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SeparableFit:
    """The minimum that was found; `rss` is the plain sum of squares, whatever loss was minimised."""

    theta: Array
    coefficients: Array
    rss: float


def fit_separable(model: SeparableModel, inputs: Array, y: Array, *, robust: bool = False) -> SeparableFit:
    """Project the linear part out at every start, polish the best ones in all parameters, return the lowest.

    A robust fit minimises scipy's soft_l1 loss, with the plain fit's median absolute residual as its scale.
    """
    starts = _best_starts(model, inputs, y)
    plain = _polish(model, inputs, y, starts, None)
    if not robust:
        return plain
    residuals = _residuals(model, inputs, y, plain.theta, plain.coefficients)
    scale = max(1.4826 * float(np.median(np.abs(residuals))), 1e-6 * float(np.abs(y).max()))
    return _polish(model, inputs, y, [(plain.theta, plain.coefficients), *starts], scale)


def _best_starts(model: SeparableModel, inputs: Array, y: Array) -> list[tuple[Array, Array]]:
    """Return the starts with the least squares, each with its best coefficients clipped to their bounds."""
    rows = np.unique(np.linspace(0, y.size - 1, min(y.size, _START_POINTS)).astype(int))
    basis = model.basis(model.starts, inputs[rows])
    coefficients = np.zeros((model.starts.shape[0], basis.shape[-1]))
    coefficients[:, list(model.fixed)] = list(model.fixed.values())
    free = _free(model)
    design = basis[..., free]
    target = y[rows] - np.einsum("spc,sc->sp", basis, coefficients)
    normal = np.einsum("spc,spd->scd", design, design)
    solution = np.einsum("scd,sd->sc", np.linalg.pinv(normal, hermitian=True), np.einsum("spc,sp->sc", design, target))
    coefficients[:, free] = np.clip(solution, model.coefficient_bounds[0][free], model.coefficient_bounds[1][free])
    squares = ((np.einsum("spc,sc->sp", basis, coefficients) - y[rows]) ** 2).sum(axis=1)
    best = np.argsort(squares, kind="stable")[:_POLISHED_STARTS]
    return [(model.starts[index], coefficients[index]) for index in best]


def _polish(
    model: SeparableModel, inputs: Array, y: Array, starts: list[tuple[Array, Array]], robust_scale: float | None
) -> SeparableFit:
    """Run bounded least squares from every start and keep the one of the lowest cost."""
    free, parameters = _free(model), model.starts.shape[1]
    lower = np.concatenate([model.theta_bounds[0], model.coefficient_bounds[0][free]])
    upper = np.concatenate([model.theta_bounds[1], model.coefficient_bounds[1][free]])
    coefficients = starts[0][1].copy()

    def residuals(point: Array) -> Array:
        coefficients[free] = point[parameters:]
        return _residuals(model, inputs, y, point[:parameters], coefficients)

    # Where parameters have no effect scipy's step can overflow or be 0/0; it then keeps its last finite point.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        solutions = [
            least_squares(
                residuals,
                np.clip(np.concatenate([theta, start[free]]), lower, upper),
                bounds=(lower, upper),
                x_scale="jac",
                loss="linear" if robust_scale is None else "soft_l1",
                f_scale=robust_scale or 1.0,
                ftol=_TOLERANCE,
                xtol=_TOLERANCE,
                gtol=_TOLERANCE,
                max_nfev=200,
            )
            for theta, start in starts
        ]
    best = np.asarray(min(solutions, key=lambda solution: float(solution.cost)).x, dtype=float)
    rss = float((residuals(best) ** 2).sum())
    return SeparableFit(best[:parameters], coefficients.copy(), rss)


def _residuals(model: SeparableModel, inputs: Array, y: Array, theta: Array, coefficients: Array) -> Array:
    values: Array = model.basis(theta[np.newaxis], inputs)[0] @ coefficients - y
    return values


def _free(model: SeparableModel) -> list[int]:
    return [index for index in range(model.coefficient_bounds[0].size) if index not in model.fixed]
