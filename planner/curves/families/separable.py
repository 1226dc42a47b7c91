"""Models that are linear in some of their parameters: least squares from many deterministic starts, and draws."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import fdtr

from planner.curves.families.base import Array

_START_POINTS = 256  # a start need not see every point
_POLISHED_STARTS = 4
_TOLERANCE = 1e-12

WALKERS_PER_PARAMETER, FEWEST_WALKERS = 6, 32
WARM_UP, STEPS, KEPT_EVERY = 400, 900, 6
STRETCH = 2.0
LEAST_NOISE = 1e-6  # of the range of y; without noise the draws would have no width


@dataclass(frozen=True, eq=False)
class SeparableModel:
    """y = Σ_j c_j·φ_j(inputs; θ) within bounds.

    `basis` maps θ of shape (starts, p) and inputs of shape (points, …) to φ of shape (starts, points, coefficients).
    """

    basis: Callable[[Array, Array], Array]
    starts: Array
    theta_bounds: tuple[Array, Array]
    coefficient_bounds: tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class SeparableFit:
    """The minimum that was found, and what it leaves of y."""

    theta: Array
    coefficients: Array
    residuals: Array

    @property
    def rss(self) -> float:
        """The sum of the squared residuals."""
        return float((self.residuals**2).sum())


@dataclass(frozen=True, eq=False)
class SeparableDraws:
    """Draws of θ (draws, p) and of the coefficients (draws, c), the best fit first, and the noise about it.

    `levels` say from which level on a profile-likelihood interval holds each draw.
    """

    theta: Array
    coefficients: Array
    noise_sd: float
    levels: Array

    def values(self, basis: Callable[[Array, Array], Array], inputs: Array) -> Array:
        """Return the model's value at some inputs, a row for each draw."""
        return np.asarray(np.einsum("spc,sc->sp", basis(self.theta, inputs), self.coefficients))


def fit_separable(model: SeparableModel, inputs: Array, y: Array) -> SeparableFit:
    """Project the linear part out at every start, polish the best ones in all parameters, return the lowest."""
    starts, coefficients, squares = _projected(model, inputs, y)
    best = np.argsort(squares, kind="stable")[:_POLISHED_STARTS]
    return _polish(model, inputs, y, np.hstack([starts, coefficients])[best])


def draw_separable(
    model: SeparableModel, inputs: Array, y: Array, found: SeparableFit, effective: float
) -> SeparableDraws:
    """Draw parameters from their posterior: flat within the bounds, with normal noise of unknown size.

    `effective` is how many independent points y is worth. An ensemble of walkers (Goodman and Weare 2010), which does
    not mind how parameters trade off; it starts around the best fit and at other places that fit about as well.
    """
    split = model.theta_bounds[0].size
    lower, upper = (np.concatenate(parts) for parts in zip(model.theta_bounds, model.coefficient_bounds, strict=True))
    least = y.size * (LEAST_NOISE * max(float(np.ptp(y)), 1e-3 * float(np.abs(y).max()))) ** 2

    def log_squares(points: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            fitted = (model.basis(points[:, :split], inputs) @ points[:, split:, None])[..., 0]
            squares = ((fitted - y) ** 2).sum(axis=1) + least
        inside = np.all((points >= lower) & (points <= upper), axis=1) & np.isfinite(squares)
        return np.where(inside, np.log(np.where(inside, squares, 1.0)), np.inf)

    generator = np.random.default_rng(0)
    best = np.clip(np.concatenate([found.theta, found.coefficients]), lower, upper)
    degrees = max(1.0, effective - best.size)
    spread = float(np.sqrt((found.rss + least) / degrees))  # of the best fit, in units of which the walkers scatter
    size = max(FEWEST_WALKERS, 2 * WALKERS_PER_PARAMETER * best.size)
    begin = np.clip(_walkers(model, inputs, y, best, spread, size, generator), lower, upper)
    walked = _ensemble(lambda points: -effective / 2 * log_squares(points), begin, generator)
    points = np.vstack([best, walked])
    logs = log_squares(points)
    levels = fdtr(1, degrees, degrees * np.expm1(np.minimum(logs - logs.min(), 50.0)))
    levels[0] = 0.0
    noise = spread * float(np.sqrt(effective / y.size))
    return SeparableDraws(points[:, :split], points[:, split:], noise, levels)


def _walkers(
    model: SeparableModel, inputs: Array, y: Array, best: Array, noise: float, size: int, generator: np.random.Generator
) -> Array:
    """Scatter walkers as the curvature at the best fit says, half of them around the better ones of the starts."""
    split, values = model.theta_bounds[0].size, np.tile(best, (best.size + 1, 1))
    steps = 1e-5 * np.maximum(np.abs(best), 1e-3)
    values[1:] += np.diag(steps)
    fitted = np.einsum("spc,sc->sp", model.basis(values[:, :split], inputs), values[:, split:])
    slopes = (fitted[1:] - fitted[0]) / steps[:, None]
    variances, vectors = np.linalg.eigh(noise**2 * np.linalg.pinv(slopes @ slopes.T, rcond=1e-10, hermitian=True))
    root = vectors * np.sqrt(np.maximum(variances, 0.0))
    centres = np.tile(best, (size, 1))
    starts, coefficients, squares = _projected(model, inputs, y)
    likely = np.exp(-(squares - squares.min()) / (2 * noise**2 + 1e-300) / 4)
    chosen = generator.choice(squares.size, size // 2, p=likely / likely.sum())
    centres[: size // 2] = np.hstack([starts, coefficients])[chosen]
    return np.asarray(centres + generator.standard_normal((size, best.size)) @ root.T + 1e-9 * root.max())


def _ensemble(log_density: Callable[[Array], Array], walkers: Array, generator: np.random.Generator) -> Array:
    """Stretch each half of the walkers along lines through the other half, and keep every few steps."""
    half, dimensions = len(walkers) // 2, walkers.shape[1]
    density, kept = log_density(walkers), []
    for step in range(WARM_UP + STEPS):
        for mine, others in ((slice(0, half), slice(half, 2 * half)), (slice(half, 2 * half), slice(0, half))):
            stretch = ((STRETCH - 1) * generator.random(half) + 1) ** 2 / STRETCH
            partners = walkers[others][generator.integers(half, size=half)]
            proposed = partners + stretch[:, None] * (walkers[mine] - partners)
            there = log_density(proposed)
            with np.errstate(invalid="ignore"):
                gained = (dimensions - 1) * np.log(stretch) + there - density[mine]
            accepted = np.isfinite(there) & ~(np.log(generator.random(half)) >= gained)
            walkers[mine] = np.where(accepted[:, None], proposed, walkers[mine])
            density[mine] = np.where(accepted, there, density[mine])
        if step >= WARM_UP and step % KEPT_EVERY == 0:
            kept.append(walkers[np.isfinite(density)])
    return np.concatenate(kept)


def _projected(model: SeparableModel, inputs: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return every start with its best coefficients clipped to their bounds, and what squares they leave."""
    rows = np.unique(np.linspace(0, y.size - 1, min(y.size, _START_POINTS)).astype(int))
    design, target = model.basis(model.starts, inputs[rows]), y[rows]
    normal = np.einsum("spc,spd->scd", design, design)
    solution = np.einsum("scd,sd->sc", np.linalg.pinv(normal, hermitian=True), np.einsum("spc,p->sc", design, target))
    coefficients = np.clip(solution, *model.coefficient_bounds)
    squares = ((np.einsum("spc,sc->sp", design, coefficients) - target) ** 2).sum(axis=1)
    return model.starts, coefficients, np.asarray(squares)


def _polish(model: SeparableModel, inputs: Array, y: Array, starts: Array) -> SeparableFit:
    """Run bounded least squares from every start and keep the one of the lowest cost."""
    split = model.starts.shape[1]
    lower, upper = (np.concatenate(parts) for parts in zip(model.theta_bounds, model.coefficient_bounds, strict=True))

    def residuals(point: Array) -> Array:
        values: Array = model.basis(point[np.newaxis, :split], inputs)[0] @ point[split:] - y
        return values

    # Where parameters have no effect scipy's step can overflow or be 0/0; it then keeps its last finite point.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        solutions = [
            least_squares(
                residuals,
                np.clip(start, lower, upper),
                bounds=(lower, upper),
                x_scale="jac",
                ftol=_TOLERANCE,
                xtol=_TOLERANCE,
                gtol=_TOLERANCE,
                max_nfev=200,
            )
            for start in starts
        ]
    best = np.asarray(min(solutions, key=lambda solution: float(solution.cost)).x, dtype=float)
    return SeparableFit(best[:split], best[split:], -residuals(best))
