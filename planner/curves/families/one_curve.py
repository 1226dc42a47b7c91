"""The laws of one curve, as draws of what their parameters may be: the sigmoid of ScaleRL and the saturating power law.

R(C) = R0 + (A − R0) / (1 + (C_mid/C)^B) and, its limit at large compute, R(C) = A − D/C^B (arXiv 2510.13786, section 3
and appendix A.4). Data that cannot tell what a law is say so.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit, fdtr

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.metrics import INTERVAL_LEVEL

Basis = Callable[[Vector, Vector], Vector]

_BOUNDED_REACH, _UNBOUNDED_REACH = 1e4, 10.0  # how many ranges of the scores a start or a ceiling may lie beyond them
_SLOWEST, _STEEPEST = 0.05, 20.0  # B of the sigmoid
_STARTS = (7, 24)  # values of B, and of log C_mid
_EXPONENTS, _EXPONENT_STARTS = (0.01, 10.0), 40  # B of the power law
_FEWEST_DISTINCT = 4  # x of a curve
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
    """A law given the data, as draws: of its parameters, and of its values at some x.

    `doubts` say why the data do not tell what the law is; there are none where they do. `levels` are as in `interval`.
    """

    parameters: dict[str, Vector]
    values: Callable[[Vector], Vector]
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


def require_variation(curve: Curve, family: str) -> None:
    """Raise CannotTellError unless a curve has enough distinct x, and scores that differ."""
    if (have := np.unique(curve.x).size) < _FEWEST_DISTINCT:
        raise CannotTellError(
            f"curve '{curve.name}' has {have} distinct x values that can be used: the {family} needs "
            f"{_FEWEST_DISTINCT}; evaluate more often or train longer"
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


class _Scaled:
    """A curve in units of its range, so that tolerances mean the same for every metric, and where R0 and A may be."""

    def __init__(self, curve: Curve, family: str) -> None:
        require_variation(curve, family)
        self.curve, self.origin, self.unit = curve, float(curve.y.min()), float(np.ptp(curve.y))
        self.y = (curve.y - self.origin) / self.unit
        self.limits = -_UNBOUNDED_REACH, 1 + _UNBOUNDED_REACH
        if curve.bounded:
            least, most = -self.origin / self.unit, (1 - self.origin) / self.unit
            self.limits = max(least, -_BOUNDED_REACH), min(most, 1 + _BOUNDED_REACH)

    def law(self, parameters: dict[str, Vector], problem: Separable, drawn: Drawn, reference: float = 0.0) -> LawDraws:
        """Return the law from the draws of a problem whose inputs are log x beyond a reference."""

        def scores(x: Vector) -> Vector:
            return self.origin + self.unit * problem.values(drawn.points, np.log(x) - reference)

        doubts = _doubts(self.curve, parameters["A"], drawn.levels, self.unit * drawn.residuals)
        return LawDraws(parameters, scores, self.unit * drawn.noise_sd, doubts, levels=drawn.levels)


def draw_sigmoid(curve: Curve) -> LawDraws:
    """Return what R0, A, B and C_mid may be, if the curve is a sigmoid."""
    scaled = _Scaled(curve, "sigmoid")
    with np.errstate(divide="ignore"):  # before training
        problem = sigmoid(np.log(curve.x), scaled.y, scaled.limits)
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
    scaled = _Scaled(curve.where(curve.x > 0), "power law")
    reference, (low, high) = math.log(scaled.curve.x[0]), scaled.limits
    problem = Separable(
        basis=_power_basis,
        inputs=np.log(scaled.curve.x) - reference,
        y=scaled.y,
        starts=np.log(np.geomspace(*_EXPONENTS, _EXPONENT_STARTS))[:, np.newaxis],
        bounds=(
            np.array([math.log(_EXPONENTS[0]), low, low - high]),
            np.array([math.log(_EXPONENTS[1]), high, high - low]),
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
