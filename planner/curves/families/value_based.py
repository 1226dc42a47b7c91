"""How many environment steps a threshold needs in value-based RL (arXiv 2508.14881).

D(σ, N) = D_min·[1 + (a/σ)^α + (b/N)^β]; σ is updates per environment step (UTD), N the critic's parameters.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from budgets.errors import InputError
from planner.curves.families.base import Array, CannotTellError, LawDraws, size_name, vague
from planner.curves.families.separable import SeparableModel, draw_separable, fit_separable

_EXPONENTS = (0.05, 5.0)
_STARTS = 12  # values of α, and of β
_LARGEST_TERM = 1e6  # a term of the sum, in units of the least data seen


def draw_value_based(triples: ArrayLike) -> LawDraws:
    """Return what D_min, a, α, b and β may be, from triples (σ, N, D) in the last axis.

    Relative residuals are fitted, since D spans orders of magnitude; so `noise_sd` is relative too.
    """
    updates, sizes, data = _positive(triples).reshape(-1, 3).T
    if data.size < 6 or np.unique(updates).size < 3 or np.unique(sizes).size < 3:
        raise CannotTellError(
            f"{data.size} rows with {np.unique(updates).size} different σ and {np.unique(sizes).size} different N: the "
            "law has five parameters and needs at least 6 rows, 3 different σ and 3 different N"
        )
    unit, sigma, size = float(data.min()), float(updates.min()), float(sizes.min())
    exponents = np.log(np.geomspace(0.2, 3.0, _STARTS))
    model = SeparableModel(
        basis=_basis,
        starts=np.stack(np.meshgrid(exponents, exponents), axis=-1).reshape(-1, 2),
        theta_bounds=(np.full(2, math.log(_EXPONENTS[0])), np.full(2, math.log(_EXPONENTS[1]))),
        coefficient_bounds=(np.array([1e-9, 0.0, 0.0]), np.full(3, _LARGEST_TERM)),
    )
    inputs = np.stack([np.log(updates / sigma), np.log(sizes / size), np.log(data / unit)], axis=-1)
    ones = np.ones_like(data)
    drawn = draw_separable(model, inputs, ones, fit_separable(model, inputs, ones), data.size)
    (least, by_updates, by_size), (alpha, beta) = drawn.coefficients.T, np.exp(drawn.theta).T
    law = {
        "D_min": unit * least,
        "a": sigma * (by_updates / least) ** (1 / alpha),
        "alpha": alpha,
        "b": size * (by_size / least) ** (1 / beta),
        "beta": beta,
    }

    def of_size(parameters: float) -> Callable[[Array], Array]:
        def needed(at: Array) -> Array:
            values = np.asarray(at, dtype=float)
            places = np.stack([np.log(values / sigma), np.full_like(values, math.log(parameters / size))], axis=-1)
            return unit * drawn.values(_basis, np.concatenate([places, np.zeros((values.size, 1))], axis=1))

        return needed

    doubts = vague(law, drawn.levels, {"alpha": _EXPONENTS, "beta": _EXPONENTS})
    series = {size_name(each): of_size(float(each)) for each in np.unique(sizes)}
    return LawDraws(law, series, drawn.noise_sd, tuple(doubts), levels=drawn.levels)


def _basis(theta: Array, inputs: Array) -> Array:
    """Return the three terms of the sum at each triple, divided by its own D."""
    log_data = inputs[:, 2]
    by_updates = -np.exp(theta[:, :1]) * inputs[:, 0] - log_data
    by_size = -np.exp(theta[:, 1:]) * inputs[:, 1] - log_data
    constant = np.broadcast_to(-log_data, by_updates.shape)
    return np.exp(np.stack([constant, by_updates, by_size], axis=-1))


def _positive(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=float)
    if array.ndim == 0 or array.shape[-1] != 3:
        raise InputError(f"values of shape {array.shape}: give triples (σ, N, D) in the last axis")
    if not bool(np.all(np.isfinite(array) & (array > 0))):
        raise InputError("σ, N and D hold values that are not finite or not above 0: each must be a positive number")
    return array
