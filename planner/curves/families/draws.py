"""What the laws of the literature share: draws of what a law may be, when data cannot tell, and least squares."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import fdtr

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.metrics import INTERVAL_LEVEL

Basis = Callable[[Vector, Vector], Vector]

_SMALLEST_RANGE = 1e-150  # its square is still a normal number
_MOST_CORRELATED = 0.9

_START_POINTS, _POLISHED_STARTS = 256, 4  # a start need not see every point
_TOLERANCE = 1e-12
_LEAST_NOISE = 1e-6  # of the range of y; without noise the draws would have no width
_WALKERS_PER_PARAMETER, _FEWEST_WALKERS = 12, 32
_WARM_UP, _STEPS, _THINNING = 400, 900, 6


class CannotTellError(InputError):
    """The data are sound, but there are too few of them, or too little changes, for the law."""


@dataclass(frozen=True, eq=False)
class LawDraws:
    """A law given the data, as draws: of its parameters, and of its values at some x for each series it predicts.

    `doubts` say why the data do not tell what the law is; there are none where they do. `levels` are as in `interval`.
    """

    parameters: dict[str, Vector]
    series: dict[str, Callable[[Vector], Vector]]
    noise_sd: float
    doubts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    levels: Vector | None = None


def interval(draws: Vector, levels: Vector | None, level: float = INTERVAL_LEVEL) -> Vector:
    """Return the middle of draws and the ends of their interval, over the first axis.

    `levels` say from which level on a profile-likelihood interval holds a draw, and the first draw is the best fit:
    such intervals keep their word where a parameter is half known, and quantiles lean to where there is more room.
    """
    if levels is None:
        return np.asarray(np.quantile(draws, (0.5, (1 - level) / 2, (1 + level) / 2), axis=0))
    inside = draws[levels <= level]
    return np.stack([draws[0], inside.min(axis=0), inside.max(axis=0)])


def require_variation(curve: Curve, family: str, distinct: int) -> None:
    """Raise CannotTellError unless a curve has so many distinct x and scores that differ."""
    if (have := np.unique(curve.x).size) < distinct:
        raise CannotTellError(
            f"curve '{curve.name}' has {have} distinct x values that can be used: the {family} needs {distinct}; "
            "evaluate more often or train longer"
        )
    scale = 1.0 if curve.bounded else float(np.abs(curve.y).max())
    if float(np.ptp(curve.y)) <= max(_SMALLEST_RANGE, 1e-12 * scale):
        raise CannotTellError(
            f"curve '{curve.name}' has the score {curve.y[0]:g} everywhere: the {family} needs scores that change"
        )


def effective_points(residuals: Vector) -> float:
    """Return how many independent points residuals are worth: those like their neighbours say less."""
    above, squares = float((residuals[1:] * residuals[:-1]).sum()), float(residuals @ residuals)
    correlation = float(np.clip(above / squares if squares > 0 else 0.0, 0.0, _MOST_CORRELATED))
    return residuals.size * (1 - correlation) / (1 + correlation)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws of (θ, c), the best fit first, the noise about it, and what it leaves of y; `levels` as in `interval`."""

    points: Vector
    noise_sd: float
    levels: Vector
    residuals: Vector


@dataclass(frozen=True, eq=False)
class Separable:
    """y = Σ_j c_j·φ_j(inputs; θ), where (θ, c) lies within bounds.

    `basis` maps θ of shape (draws, p) and inputs of shape (points, …) to φ of shape (draws, points, coefficients);
    `starts` are values of θ to search from.
    """

    basis: Basis
    inputs: Vector
    y: Vector
    starts: Vector
    bounds: tuple[Vector, Vector]

    def values(self, points: Vector, inputs: Vector) -> Vector:
        """Return the model's value at some inputs, a row for each (θ, c)."""
        split = self.starts.shape[1]
        return np.asarray((self.basis(points[:, :split], inputs) @ points[:, split:, None])[..., 0])

    def fit(self) -> Vector:
        """Return the (θ, c) of least squares: the best of the starts, polished in all parameters."""
        points, squares = self._projected()

        def residuals(point: Vector) -> Vector:
            return np.asarray(self.values(point[None], self.inputs)[0] - self.y)

        # Where parameters have no effect scipy's step can overflow or be 0/0; it then keeps its last finite point.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            solutions = [
                least_squares(
                    residuals,
                    np.clip(points[row], *self.bounds),
                    bounds=self.bounds,
                    x_scale="jac",
                    ftol=_TOLERANCE,
                    xtol=_TOLERANCE,
                    gtol=_TOLERANCE,
                    max_nfev=200,
                )
                for row in np.argsort(squares, kind="stable")[:_POLISHED_STARTS]
            ]
        return np.asarray(min(solutions, key=lambda solution: float(solution.cost)).x, dtype=float)

    def draw(self) -> Drawn:
        """Draw (θ, c) from its posterior: flat within the bounds, with normal noise of unknown size.

        An ensemble of walkers (Goodman and Weare 2010), which does not mind how parameters trade off; it starts around
        the best fit and at other places that fit about as well.
        """
        y, best = self.y, self.fit()
        residuals = y - self.values(best[None], self.inputs)[0]
        effective = effective_points(residuals)
        least = y.size * (_LEAST_NOISE * max(float(np.ptp(y)), 1e-3 * float(np.abs(y).max()))) ** 2

        def log_squares(points: Vector) -> Vector:
            with np.errstate(over="ignore", invalid="ignore"):
                squares = ((self.values(points, self.inputs) - y) ** 2).sum(axis=1) + least
            inside = np.all((points >= self.bounds[0]) & (points <= self.bounds[1]), axis=1) & np.isfinite(squares)
            return np.where(inside, np.log(np.where(inside, squares, 1.0)), np.inf)

        generator = np.random.default_rng(0)
        degrees = max(1.0, effective - best.size)
        spread = float(np.sqrt((float(residuals @ residuals) + least) / degrees))
        begin = np.clip(self._walkers(best, spread, generator), *self.bounds)
        points = np.vstack([best, _ensemble(lambda at: -effective / 2 * log_squares(at), begin, generator)])
        logs = log_squares(points)
        levels = fdtr(1, degrees, degrees * np.expm1(np.minimum(logs - logs.min(), 50.0)))
        levels[0] = 0.0
        return Drawn(points, spread * float(np.sqrt(effective / y.size)), levels, residuals)

    def _projected(self) -> tuple[Vector, Vector]:
        """Return every start with its best coefficients clipped to their bounds, and what squares they leave."""
        rows = np.unique(np.linspace(0, self.y.size - 1, min(self.y.size, _START_POINTS)).astype(int))
        design, target, split = self.basis(self.starts, self.inputs[rows]), self.y[rows], self.starts.shape[1]
        normal, along = np.einsum("spc,spd->scd", design, design), np.einsum("spc,p->sc", design, target)
        solution = np.einsum("scd,sd->sc", np.linalg.pinv(normal, hermitian=True), along)
        coefficients = np.clip(solution, self.bounds[0][split:], self.bounds[1][split:])
        squares = ((np.einsum("spc,sc->sp", design, coefficients) - target) ** 2).sum(axis=1)
        return np.hstack([self.starts, coefficients]), np.asarray(squares)

    def _walkers(self, best: Vector, noise: float, generator: np.random.Generator) -> Vector:
        """Scatter walkers as the curvature at the best fit says, half of them around the better ones of the starts."""
        size, steps = max(_FEWEST_WALKERS, _WALKERS_PER_PARAMETER * best.size), 1e-5 * np.maximum(np.abs(best), 1e-3)
        fitted = self.values(np.vstack([best, best + np.diag(steps)]), self.inputs)
        slopes = (fitted[1:] - fitted[0]) / steps[:, None]
        variances, vectors = np.linalg.eigh(noise**2 * np.linalg.pinv(slopes @ slopes.T, rcond=1e-10, hermitian=True))
        root = vectors * np.sqrt(np.maximum(variances, 0.0))
        points, squares = self._projected()
        likely = np.exp(-(squares - squares.min()) / (2 * noise**2 + 1e-300) / 4)
        centres = np.tile(best, (size, 1))
        centres[: size // 2] = points[generator.choice(squares.size, size // 2, p=likely / likely.sum())]
        return np.asarray(centres + generator.standard_normal((size, best.size)) @ root.T + 1e-9 * root.max())


def _ensemble(log_density: Callable[[Vector], Vector], walkers: Vector, generator: np.random.Generator) -> Vector:
    """Stretch each half of the walkers along lines through the other half, and keep every few steps."""
    half, dimensions = len(walkers) // 2, walkers.shape[1]
    density, samples = log_density(walkers), []
    for step in range(_WARM_UP + _STEPS):
        for mine, others in ((slice(0, half), slice(half, 2 * half)), (slice(half, 2 * half), slice(0, half))):
            stretch = (generator.random(half) + 1) ** 2 / 2
            partners = walkers[others][generator.integers(half, size=half)]
            proposed = partners + stretch[:, None] * (walkers[mine] - partners)
            there = log_density(proposed)
            with np.errstate(invalid="ignore"):
                gained = (dimensions - 1) * np.log(stretch) + there - density[mine]
            accepted = np.isfinite(there) & ~(np.log(generator.random(half)) >= gained)
            walkers[mine] = np.where(accepted[:, None], proposed, walkers[mine])
            density[mine] = np.where(accepted, there, density[mine])
        if step >= _WARM_UP and step % _THINNING == 0:
            samples.append(walkers[np.isfinite(density)])
    return np.concatenate(samples)
