"""The log-linear law across model sizes (arXiv 2509.25300): log10 L = −k(N)·log10 X + E(N), L = 1 − pass@1.

k(N) = K_max/(1 + N_0/N), and E is a table with one value per size: a larger model needs a few early points of its own.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.base import (
    Array,
    CannotTellError,
    LawDraws,
    compute_values,
    effective_points,
    require_variation,
    size_name,
    vague,
)
from planner.curves.families.separable import (
    SeparableDraws,
    SeparableModel,
    draw_separable,
    fit_separable,
)

_STARTS = 200  # values of N_0
_MARGINS = (1e-2, 1e3)  # N_0 lies between these multiples of the smallest and the largest model
_STEEPEST = 50.0
_FARTHEST = 10.0  # log10 L at the middle of a size's points


def draw_model_sizes(curves: Mapping[float, Sequence[Curve]]) -> LawDraws:
    """Return what K_max, N_0 and the E of each size may be; sizes are in any unit, the same for all."""
    if wrong := [size for size in curves if not (math.isfinite(size) and size > 0)]:
        raise InputError(f"model size {wrong[0]}: give a number of parameters above 0")
    if len(curves) < 2:
        raise CannotTellError(f"there are curves of {len(curves)} model size: how k grows with N needs at least 2")
    sizes = np.array(list(curves))
    points = [_log_points(each) for each in curves.values()]
    middles = np.array([float(log_x.mean()) for log_x, _ in points])
    rows = np.repeat(np.arange(sizes.size), [log_x.size for log_x, _ in points])
    log_x, log_loss = (np.concatenate(column) for column in zip(*points, strict=True))
    # Each size's X is taken from its middle: E at X = 1 lies decades away, where it and k could not be told apart.
    inputs = np.column_stack([np.log(sizes)[rows], log_x - middles[rows], np.eye(sizes.size)[rows]])
    ends = math.log(sizes.min() * _MARGINS[0]), math.log(sizes.max() * _MARGINS[1])
    model = SeparableModel(
        basis=_basis,
        starts=np.linspace(*ends, _STARTS)[:, np.newaxis],
        theta_bounds=(np.array(ends[:1]), np.array(ends[1:])),
        coefficient_bounds=(
            np.append(0.0, np.full(sizes.size, -_FARTHEST)),
            np.append(_STEEPEST, np.full(sizes.size, _FARTHEST)),
        ),
    )
    found = fit_separable(model, inputs, log_loss)
    if found.coefficients[0] < 1e-9:
        raise CannotTellError("scores fall with X in the curves of these sizes: the law is about curves that rise")
    effective = effective_points([found.residuals[rows == row] for row in range(sizes.size)])
    drawn = draw_separable(model, inputs, log_loss, found, effective)
    return _law(drawn, sizes, middles, (math.exp(ends[0]), math.exp(ends[1])))


def _law(drawn: SeparableDraws, sizes: Array, middles: Array, ends: tuple[float, float]) -> LawDraws:
    exponents = drawn.coefficients[:, :1] * _share(drawn.theta, np.log(sizes))
    intercepts = drawn.coefficients[:, 1:] + exponents * middles

    def of_size(row: int) -> Callable[[Array], Array]:
        def scores(x: Array) -> Array:
            values = compute_values(x)
            if not bool(np.all(values > 0)):
                raise InputError("the log-linear law says nothing about x = 0: give x above 0")
            return np.asarray(1 - 10 ** (intercepts[:, row, None] - exponents[:, row, None] * np.log10(values)))

        return scores

    law = {"K_max": drawn.coefficients[:, 0], "N_0": np.exp(drawn.theta[:, 0])}
    names = [size_name(size) for size in sizes]
    return LawDraws(
        law | {f"E[{name}]": intercepts[:, row] for row, name in enumerate(names)},
        {name: of_size(row) for row, name in enumerate(names)},
        drawn.noise_sd,
        tuple(vague(law, None, {"N_0": ends})),
    )


def _log_points(curves: Sequence[Curve]) -> tuple[Array, Array]:
    """Return log10 X and log10 L of all runs of a size, in the order of X."""
    log_x, log_loss = [], []
    for curve in curves:
        trained = curve.x > 0
        scores = curve.y[trained]
        require_variation(Curve(curve.name, curve.x[trained], scores, curve.bounded), "log-linear law", 2)
        if scores.min() < 0 or scores.max() >= 1:
            raise InputError(
                f"curve '{curve.name}' has scores from {scores.min():g} to {scores.max():g}: the law is about "
                "log(1 − score) and needs fractions of at least 0 and below 1; divide percentages with --percent"
            )
        log_x.append(np.log10(curve.x[trained]))
        log_loss.append(np.log10(1 - scores))
    joined = np.concatenate(log_x)
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate(log_loss)[order]


def _basis(theta: Array, inputs: Array) -> Array:
    """Return the weights of K_max and of each size's level at its middle, for θ = (log N_0)."""
    slope = -_share(theta, inputs[:, 0]) * inputs[:, 1]
    return np.concatenate([slope[..., None], np.broadcast_to(inputs[:, 2:], (*slope.shape, inputs.shape[1] - 2))], 2)


def _share(log_midpoint: Array, log_sizes: Array) -> Array:
    """Return k(N)/K_max."""
    return np.asarray(1 / (1 + np.exp(log_midpoint - log_sizes)))
