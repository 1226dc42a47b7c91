"""Data against compute in value-based RL: how many environment steps a threshold needs, and the cheapest way there.

The form and the budget are those of arXiv 2508.14881; σ is updates per environment step, N the critic's parameters.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from budgets.errors import InputError
from planner.curves.families.base import Array
from planner.curves.families.separable import SeparableModel, fit_separable

_EXPONENTS = (0.05, 5.0)
_STARTS = 12  # values of α, and of β
_LARGEST_TERM = 1e6  # a term of the sum, in units of the least data seen


@dataclass(frozen=True)
class ValueBasedFit:
    """D(σ, N) = D_min·[1 + (a/σ)^α + (b/N)^β]; `rss` is that of the relative residuals of D."""

    D_min: float
    a: float
    alpha: float
    b: float
    beta: float
    rss: float

    @property
    def parameters(self) -> dict[str, float]:
        """D_min, a, alpha, b and beta."""
        return {"D_min": self.D_min, "a": self.a, "alpha": self.alpha, "b": self.b, "beta": self.beta}

    def predict(self, x: ArrayLike) -> Array:
        """Return the data needed, for pairs (σ, N) in the last axis."""
        pairs = _positive(x, 2, "pairs (σ, N)")
        terms = (self.a / pairs[..., 0]) ** self.alpha + (self.b / pairs[..., 1]) ** self.beta
        return np.asarray(self.D_min * (1 + terms))


@dataclass(frozen=True)
class ValueBasedAllocation:
    """The cheapest way to a threshold: σ and N, the data and compute they need, and the budget F = C + δ·D."""

    updates_per_step: float
    parameters: float
    data: float
    compute: float
    budget: float


class ValueBasedLaw:
    """The family: least squares of the relative residuals, since D spans orders of magnitude."""

    name: ClassVar[str] = "value-based data law"

    def fit(self, triples: ArrayLike, /) -> ValueBasedFit:
        """Fit triples (σ, N, D) in the last axis; needs five, with three different σ and three different N."""
        updates, sizes, data = _positive(triples, 3, "triples (σ, N, D)").reshape(-1, 3).T
        if data.size < 5 or np.unique(updates).size < 3 or np.unique(sizes).size < 3:
            raise InputError(
                f"{data.size} triples with {np.unique(updates).size} different σ and {np.unique(sizes).size} different "
                "N: the law has five parameters and needs at least 5 triples, 3 different σ and 3 different N"
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
        found = fit_separable(model, inputs, np.ones_like(data))
        least, by_updates, by_size = (float(value) for value in found.coefficients)
        alpha, beta = (math.exp(value) for value in found.theta)
        return ValueBasedFit(
            D_min=unit * least,
            a=sigma * (by_updates / least) ** (1 / alpha),
            alpha=alpha,
            b=size * (by_size / least) ** (1 / beta),
            beta=beta,
            rss=found.rss,
        )


def cheapest(law: ValueBasedFit, *, batch_size: float, data_price: float) -> ValueBasedAllocation:
    """Return σ and N that reach the threshold of the law with the least budget F = C + δ·D, where C = D·σ·batch·N.

    log F is convex in (log σ, log N), so the minimum is the only one. The batch is held fixed.
    """
    if not (batch_size > 0 and data_price > 0 and math.isfinite(batch_size) and math.isfinite(data_price)):
        raise InputError(
            f"batch size {batch_size} and price of data {data_price}: both must be above 0 (without a price of data no "
            "allocation is the cheapest)"
        )
    if not (law.a > 0 and law.b > 0):
        raise InputError(
            f"the law has a = {law.a:g} and b = {law.b:g}: where more updates or parameters save no data, the least of "
            "them is the cheapest; fit runs in which they do"
        )
    # Variables in units of a and b, so that both are near 0 at the optimum; C/(δ·D) = exp(u + v + log_ratio).
    log_ratio = math.log(law.a) + math.log(law.b) + math.log(batch_size) - math.log(data_price)

    def objective(point: Array) -> tuple[float, Array]:
        u, v = (float(value) for value in point)
        data = np.array([0.0, -law.alpha * u, -law.beta * v])
        log_data = float(np.logaddexp.reduce(data))
        log_cost = float(np.logaddexp(0.0, u + v + log_ratio))
        shares = np.exp(data[1:] - log_data)
        by_compute = math.exp(u + v + log_ratio - log_cost)
        return log_data + log_cost, by_compute - np.array([law.alpha, law.beta]) * shares

    found = minimize(objective, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9})
    updates, parameters = law.a * math.exp(found.x[0]), law.b * math.exp(found.x[1])
    data = float(law.predict((updates, parameters)))
    compute = data * updates * batch_size * parameters
    return ValueBasedAllocation(updates, parameters, data, compute, compute + data_price * data)


def _basis(theta: Array, inputs: Array) -> Array:
    """Return the three terms of the sum at each triple, divided by its own D."""
    log_data = inputs[:, 2]
    by_updates = -np.exp(theta[:, :1]) * inputs[:, 0] - log_data
    by_size = -np.exp(theta[:, 1:]) * inputs[:, 1] - log_data
    constant = np.broadcast_to(-log_data, by_updates.shape)
    return np.exp(np.stack([constant, by_updates, by_size], axis=-1))


def _positive(values: ArrayLike, columns: int, what: str) -> Array:
    array = np.asarray(values, dtype=float)
    if array.ndim == 0 or array.shape[-1] != columns:
        raise InputError(f"values of shape {array.shape}: give {what} in the last axis")
    if not bool(np.all(np.isfinite(array) & (array > 0))):
        raise InputError(
            f"{what} hold values that are not finite or not above 0: every value must be a positive number"
        )
    return array
