"""The laws of one curve, R(C) = R0·(1 − g(C)) + A·g(C), as posterior draws of their parameters.

The sigmoid of ScaleRL has g = 1/(1 + (C_mid/C)^B); its limit at large compute, the saturating power law
R(C) = A − D/C^B, has g = 1 − (C/C₁)^−B from the first compute C₁ on (arXiv 2510.13786, section 3 and appendix A.4).
Given the shape θ of g both ends are linear: they are integrated exactly, θ by draws about the Laplace approximation.

Arrays are (s, p): draws, parameters of θ; (s, i): draws, points.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, fdtr, ndtr, ndtri

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.metrics import INTERVAL_LEVEL, Interval

BOUNDED_REACH, UNBOUNDED_REACH = 1e4, 10.0  # how many ranges of the scores R0 and A may lie beyond them
SLOWEST, STEEPEST = 0.05, 20.0  # B of the sigmoid
EXPONENTS = (0.01, 10.0)  # B of the power law
FEWEST_DISTINCT = 4  # x of a curve
SMALLEST_RANGE = 1e-150  # its square is still a normal number
MOST_CORRELATED = 0.9

POLISHED_STARTS = 4
LEAST_NOISE = 1e-6  # of the range of y; without noise the draws would have no width
LEAST_CURVATURE = 1e-12  # so that an end of which the points say nothing lies anywhere within its limits
PROPOSALS = 6_000
FLATTEST = 1e-8  # variance of the proposals in any direction, as a part of the whole
TAIL = 3.0  # degrees of freedom of the proposals about the mode, whose tails are to lie beyond the posterior's


class CannotTellError(InputError):
    """The data are sound, but there are too few of them, or too little changes, for the law."""


@dataclass(frozen=True, eq=False)
class LawDraws:
    """A law given the data, as draws: of its parameters, and of its values at some x.

    `doubts` say why the data do not tell what the law is; there are none where they do. Draws have the posterior's
    `weights`, all alike without. `levels` say from which level on a profile-likelihood interval holds a draw, the first
    of which is then the best fit: quantiles would lean to where a parameter that is half known has more room.
    """

    parameters: dict[str, Vector]
    values: Callable[[Vector], Vector]
    noise_sd: float
    doubts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    weights: Vector | None = None
    levels: Vector | None = None

    def at(self, x: Vector, level: float) -> Vector:
        """Return the middle and the ends of the interval of the law's values at some x: (3, x)."""
        return interval(self.values(x), self.levels, level)

    def intervals(self, level: float) -> dict[str, Interval]:
        """Return each parameter with its interval."""
        ends = {name: interval(values, self.levels, level) for name, values in self.parameters.items()}
        return {name: Interval(*values.tolist()) for name, values in ends.items()}

    def sample(self, size: int, seed: int | Sequence[int]) -> NDArray[np.intp]:
        """Return the places of so many draws of the posterior; those of one seed go together."""
        count = len(next(iter(self.parameters.values())))
        return np.random.default_rng(seed).choice(count, size, p=self.weights)


def interval(draws: Vector, levels: Vector | None = None, level: float = INTERVAL_LEVEL) -> Vector:
    """Return the middle of draws and the ends of their interval, over the first axis; `levels` are as in `LawDraws`."""
    if levels is None:
        return np.asarray(np.quantile(draws, (0.5, (1 - level) / 2, (1 + level) / 2), axis=0))
    inside = draws[levels <= level]
    return np.stack([draws[0], inside.min(axis=0), inside.max(axis=0)])


def effective_points(residuals: Vector) -> float:
    """Return how many independent points residuals are worth: those like their neighbours say less."""
    above, squares = float((residuals[1:] * residuals[:-1]).sum()), float(residuals @ residuals)
    correlation = float(np.clip(above / squares if squares > 0 else 0.0, 0.0, MOST_CORRELATED))
    return residuals.size * (1 - correlation) / (1 + correlation)


@dataclass(frozen=True, eq=False)
class GainCurve:
    """y = R0·(1 − g) + A·g, where `gain` maps θ (s, p) and log x (i,) to g (s, i), and R0 and A lie within limits."""

    gain: Callable[[Vector, Vector], Vector]
    log_x: Vector
    y: Vector
    bounds: Vector  # (2, p), of θ, within which it is flat before the data
    starts: Vector  # values of θ to search from
    limits: tuple[float, float]

    def values(self, points: Vector, log_x: Vector) -> Vector:
        """Return y at some log x, a row for each (θ, R0, A)."""
        gained = self.gain(points[:, :-2], log_x)
        return np.asarray(points[:, -2:-1] * (1 - gained) + points[:, -1:] * gained)

    @cached_property
    def best(self) -> Vector:
        """(θ, R0, A) of least squares: the best of the starts, polished in all parameters."""
        from scipy.optimize import least_squares  # noqa: PLC0415 (takes a tenth of a second to load)

        ends, _ = least_ends(self.gain(self.starts, self.log_x), self.y)
        points = np.hstack([self.starts, np.clip(ends, *self.limits)])
        squares = ((self.values(points, self.log_x) - self.y) ** 2).sum(axis=1)
        bounds = np.hstack([self.bounds, np.repeat([self.limits], 2, axis=0).T])

        def residuals(point: Vector) -> Vector:
            return np.asarray(self.values(point[None], self.log_x)[0] - self.y)

        options: dict[str, Any] = {"x_scale": "jac", "ftol": 1e-12, "xtol": 1e-12, "gtol": 1e-12, "max_nfev": 200}
        # Where parameters have no effect scipy's step can overflow or be 0/0; it then keeps its last finite point.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            solutions = [
                least_squares(residuals, np.clip(points[row], *bounds), bounds=bounds, **options)
                for row in np.argsort(squares, kind="stable")[:POLISHED_STARTS]
            ]
        return np.asarray(min(solutions, key=lambda solution: float(solution.cost)).x, dtype=float)

    @property
    def residuals(self) -> Vector:
        """What the best leaves of y."""
        return np.asarray(self.y - self.values(self.best[None], self.log_x)[0])

    def draw(self) -> tuple[Vector, Vector, Vector, float]:
        """Draw (θ, R0, A) from its posterior: flat within the bounds, with normal noise of unknown size.

        Returned are points, the best fit first, their weights, their levels as in `LawDraws`, and the noise. A proposal
        of θ weighs p(y | θ) / q(θ); R0 and A given θ are a Student's t within their limits.
        """
        generator, residuals = np.random.default_rng(0), self.residuals
        effective, count = effective_points(residuals), self.y.size
        least = count * (LEAST_NOISE * max(float(np.ptp(self.y)), 1e-3 * float(np.abs(self.y).max()))) ** 2
        best_squares, degrees = float(residuals @ residuals) + least, max(1.0, effective - self.best.size)
        theta, log_proposal = self._proposed(best_squares / degrees, generator)
        gained = self.gain(theta, self.log_x)
        mean, gram = least_ends(gained, self.y)
        squares = least + ((mean[:, :1] * (1 - gained) + mean[:, 1:] * gained - self.y) ** 2).sum(axis=1)
        noise: Vector = squares / generator.chisquare(max(1.0, effective - 2), squares.size)  # variance
        covariance = np.asarray(np.linalg.inv(gram), dtype=float)
        ends, log_within = self._ends(mean, noise, covariance, generator)
        log_weight = log_within - np.linalg.slogdet(gram)[1] / 2 - max(1.0, effective - 2) / 2 * np.log(squares)
        weight = np.exp(log_weight - log_proposal - (log_weight - log_proposal).max())
        squares += np.einsum("sc,scd,sd->s", ends - mean, gram, ends - mean)
        excess = np.append(0.0, squares / min(best_squares, float(squares.min())) - 1)
        levels = fdtr(1, degrees, degrees * np.clip(excess, 0.0, 1e20))
        points = np.vstack([self.best, np.hstack([theta, ends])])
        return (
            points,
            np.append(0.0, weight / weight.sum()),
            levels,
            math.sqrt(best_squares / degrees * effective / count),
        )

    def _proposed(self, variance: float, generator: np.random.Generator) -> tuple[Vector, Vector]:
        """Propose θ by Laplace's approximation with heavy tails, and as often anywhere, so that ridges are found."""
        from scipy.stats import multivariate_t  # noqa: PLC0415 (takes half a second to load)

        mode, (low, high) = self.best[:-2], self.bounds
        steps = 1e-5 * np.maximum(np.abs(self.best), 1e-3)
        fitted = self.values(np.vstack([self.best, self.best + np.diag(steps)]), self.log_x)
        slopes = (fitted[1:] - fitted[0]) / steps[:, None]
        # A parameter of which the points say nothing varies as far as its bounds.
        ranges = np.append(high - low, np.repeat(np.ptp(self.limits), 2))
        precision = slopes @ slopes.T / variance + np.diag(ranges**-2.0)
        covariance = np.linalg.inv(precision)[: mode.size, : mode.size]
        shape = covariance + FLATTEST * np.trace(covariance) * np.eye(mode.size)
        laplace = multivariate_t(mode, shape, TAIL)
        about = laplace.rvs(PROPOSALS // 2, random_state=generator).reshape(-1, mode.size)
        theta = np.vstack([about, low + (high - low) * generator.random(about.shape)])
        theta = theta[np.all((theta >= low) & (theta <= high), axis=1)]
        return theta, np.logaddexp(laplace.logpdf(theta), -np.log(high - low).sum())

    def _ends(
        self, mean: Vector, noise: Vector, covariance: Vector, generator: np.random.Generator
    ) -> tuple[Vector, Vector]:
        """Draw A, and R0 given A, within their limits; return also the log probability that they lie there."""
        slope = covariance[:, 0, 1] / covariance[:, 1, 1]
        rest = np.maximum(covariance[:, 0, 0] - slope * covariance[:, 0, 1], 0.0)

        def truncated(centre: Vector, width: Vector) -> tuple[Vector, Vector]:
            low, high = (ndtr((limit - centre) / np.maximum(width, 1e-15)) for limit in self.limits)
            quantile = np.clip(low + (high - low) * generator.random(centre.size), 1e-300, 1 - 1e-16)
            return np.clip(centre + width * ndtri(quantile), *self.limits), np.log(np.maximum(high - low, 1e-300))

        top, log_top = truncated(mean[:, 1], np.sqrt(noise * covariance[:, 1, 1]))
        start, log_start = truncated(mean[:, 0] + slope * (top - mean[:, 1]), np.sqrt(noise * rest))
        return np.stack([start, top], axis=1), log_top + log_start


def least_ends(gained: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return (R0, A) of least squares for each row of g, and the Gram matrix of their basis.

    `y` may have more than one column, which are then the last axis.
    """
    basis = np.stack([1 - gained, gained], axis=-1)
    gram = np.einsum("sic,sid->scd", basis, basis) + LEAST_CURVATURE * np.eye(2)
    along = np.einsum("sic,i...->sc...", basis, y, optimize=True)
    return np.einsum("scd,sd...->sc...", np.linalg.inv(gram), along), gram


def draw_sigmoid(curve: Curve) -> LawDraws:
    """Return what R0, A, B and C_mid may be, if the curve is a sigmoid.

    C_mid may lie from a tenth of the first x to a hundred times the last.
    """
    require_variation(curve, "sigmoid")
    with np.errstate(divide="ignore"):  # before training
        log_x = np.log(curve.x)
    first, last = float(log_x[np.isfinite(log_x)].min()), float(log_x.max())
    steepness, midpoints = np.log(np.geomspace(0.3, 8.0, 7)), np.linspace(first, last + math.log(10), 24)
    low = [math.log(SLOWEST), max(first - math.log(10), -690.0)]

    def problem(y: Vector, limits: tuple[float, float]) -> GainCurve:
        return GainCurve(
            gain=lambda theta, at: expit(np.exp(theta[:, :1]) * (at - theta[:, 1:])),
            log_x=log_x,
            y=y,
            bounds=np.array([low, [math.log(STEEPEST), last + math.log(100)]]),
            starts=np.stack(np.meshgrid(steepness, midpoints), axis=-1).reshape(-1, 2),
            limits=limits,
        )

    def parameters(points: Vector) -> dict[str, Vector]:
        return {"R0": points[:, 2], "A": points[:, 3], "B": np.exp(points[:, 0]), "C_mid": np.exp(points[:, 1])}

    return _law(curve, problem, parameters)


def draw_power_law(curve: Curve) -> LawDraws:
    """Return what A, B and D may be; points before training (x = 0) are left out."""
    curve = curve.where(curve.x > 0)
    require_variation(curve, "power law")
    reference = math.log(curve.x[0])

    def problem(y: Vector, limits: tuple[float, float]) -> GainCurve:
        return GainCurve(
            gain=lambda theta, at: -np.expm1(np.minimum(-np.exp(theta) * at, 700.0)),
            log_x=np.log(curve.x) - reference,
            y=y,
            bounds=np.log(EXPONENTS)[:, None],
            starts=np.log(np.geomspace(*EXPONENTS, 40))[:, None],
            limits=limits,
        )

    def parameters(points: Vector) -> dict[str, Vector]:
        exponent, first, top = np.exp(points[:, 0]), points[:, 1], points[:, 2]
        with np.errstate(over="ignore"):
            return {"A": top, "B": exponent, "D": (top - first) * np.exp(np.minimum(exponent * reference, 700.0))}

    return _law(curve, problem, parameters, reference)


def require_variation(curve: Curve, family: str) -> None:
    """Raise CannotTellError unless a curve has enough distinct x, and scores that differ."""
    if (distinct := np.unique(curve.x).size) < FEWEST_DISTINCT:
        raise CannotTellError(
            f"curve '{curve.name}' has {distinct} distinct x values that can be used: the {family} needs "
            f"{FEWEST_DISTINCT}; evaluate more often or train longer"
        )
    scale = 1.0 if curve.bounded else float(np.abs(curve.y).max())
    if float(np.ptp(curve.y)) <= max(SMALLEST_RANGE, 1e-12 * scale):
        raise CannotTellError(
            f"curve '{curve.name}' has the score {curve.y[0]:g} everywhere: the {family} needs scores that change"
        )


def _law(
    curve: Curve,
    problem_of: Callable[[Vector, tuple[float, float]], GainCurve],
    parameters_of: Callable[[Vector], dict[str, Vector]],
    reference: float = 0.0,
) -> LawDraws:
    """Draw the law in units of the range of the scores, so that tolerances mean the same for every metric."""
    origin, unit = float(curve.y.min()), float(np.ptp(curve.y))
    limits = -UNBOUNDED_REACH, 1 + UNBOUNDED_REACH
    if curve.bounded:
        limits = max(-origin / unit, -BOUNDED_REACH), min((1 - origin) / unit, 1 + BOUNDED_REACH)
    problem = problem_of((curve.y - origin) / unit, limits)
    points, weights, levels, noise_sd = problem.draw()
    points[:, -2:] = origin + unit * points[:, -2:]
    return LawDraws(
        parameters=parameters_of(points),
        values=lambda x: problem.values(points, np.log(x) - reference),
        noise_sd=unit * noise_sd,
        doubts=_doubts(curve, interval(points[:, -1], levels), problem.residuals),
        weights=weights,
        levels=levels,
    )


def _doubts(curve: Curve, asymptote: Vector, residuals: Vector) -> tuple[str, ...]:
    """Return why a curve does not say where it ends: it has not risen by more than noise, or A may be far above it."""
    effective, unit = effective_points(residuals), float(np.ptp(curve.y))
    changes = float(((curve.y - curve.y.mean()) ** 2).sum()) / unit**2
    remaining = max(float(residuals @ residuals), 1e-12 * changes)
    if effective * np.log(changes / remaining) < 3 * np.log(max(effective, 2)):
        return ("the scores do not change by more than their noise",)
    _, low, high = asymptote.tolist()
    tenth = max(1, curve.y.size // 10)
    change = float(curve.y[-tenth:].mean() - curve.y[:tenth].mean())
    if curve.bounded and change < 0:
        return ("the scores fall, and the law is one of learning",)
    if high - low <= abs(change) / 2:
        return ()
    reason = f"that is vaguer than half of the change seen ({abs(change):.2g})"
    return (f"A may lie between {low:.3g} and {high:.3g}: {reason}",)
