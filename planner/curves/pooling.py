"""Curves of neighbouring configurations inform each other: A and log C_mid as smooth functions of the configuration.

A_i ~ N(z_iᵀβ, s²) and log C_mid,i ~ N(z_iᵀγ, t²), with z the polynomial of the configuration's coordinates (such as
log n and log B), and a common distribution of B. Coefficients and spreads are found by expectation–maximisation over
the exact posteriors of the curves (empirical Bayes). When curves disagree with any smooth surface, s and t come out as
large as the prior of a single curve, and each is then as good as by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logsumexp

from budgets.errors import InputError
from planner.curves.beliefs import Beliefs
from planner.curves.curve import Curve, Vector
from planner.curves.posterior import Posterior, posterior_of
from planner.curves.preparation import Prepared, prepare
from planner.curves.prior import Prior

ROUNDS = 12
RIDGE = 0.3  # how many curves' worth of pull towards a flat surface
LEAST_SPREAD_A, LEAST_SPREAD_C = 0.005, 0.05
LEAST_OWN_SHARE = 0.05  # of a curve's precision that is taken to come from its own points, however little it saw
WIDEST_SPREAD_C = 1.8  # that of the grid itself
START_SPREAD_A, START_SPREAD_C = 0.2, 1.0
FEWEST_FOR_LINES, FEWEST_FOR_CURVATURE = 4, 9  # distinct configurations


@dataclass(frozen=True)
class Surface:
    """A smooth function of the configuration, how far configurations scatter about it, and what is not known of it."""

    coefficients: Vector
    covariance: Vector
    spread: float

    def mean(self, features: Vector) -> Vector:
        """Return the surface at configurations' features."""
        return np.asarray(features @ self.coefficients)

    def draw(self, features: Vector, generator: np.random.Generator, size: int) -> Vector:
        """Draw deviations of the surface from its mean, (configurations, size), one surface a column."""
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(features @ root @ generator.standard_normal((len(values), size)))


@dataclass(frozen=True)
class Pooled:
    """Curves with the posterior of each under what all say, and the surfaces they share."""

    posterior: Posterior
    coordinates: "Coordinates"
    features: Vector
    asymptote: Surface
    log_midpoint: Surface
    exponent_weights: Vector

    def draws(self, at: float, generator: np.random.Generator, size: int, unseen: ArrayLike | None = None) -> Vector:
        """Draw the mean scores at one compute jointly: rows are the curves' configurations, then those without a curve.

        A deviation of the surface moves a curve as far as its own points leave A open. Each draw of the curves implies
        the scores of configurations without one, by regression, with the scatter of configurations about it.
        """
        prepared = self.posterior.prepared
        expected = self.posterior.predict(np.full(prepared.curves, at))
        moments = _Moments.of(self.posterior)
        open_share = np.clip(moments.asymptote_variance / self.asymptote.spread**2, 0.0, 1.0)
        moved = (open_share * self._expected_gain_fraction(at))[:, None]
        seen = expected.draw(generator, size) + moved * self.asymptote.draw(self.features, generator, size)
        low, high = (0.0, 1.0) if prepared.bounded.all() else (-np.inf, np.inf)
        seen = np.clip(seen, low, high)
        if unseen is None:
            return np.asarray(seen)
        middle, variance = seen.mean(axis=1), seen.var(axis=1)
        surface = _surface(self.features, middle, variance, self.asymptote.spread)
        weight = self.features.T / (variance + self.asymptote.spread**2)
        implied = self.coordinates.features(unseen) @ surface.covariance @ weight @ seen
        scatter = np.sqrt(np.mean((middle - surface.mean(self.features)) ** 2) + self.asymptote.spread**2)
        new = implied + scatter * generator.standard_normal(implied.shape)
        return np.asarray(np.clip(np.vstack([seen, new]), low, high))

    def probability_best(self, at: float, generator: np.random.Generator, size: int = 4000) -> Vector:
        """Return each curve's probability of the highest mean score at one compute."""
        best = self.draws(at, generator, size).argmax(axis=0)
        return np.asarray(np.bincount(best, minlength=self.posterior.prepared.curves) / size)

    def _expected_gain_fraction(self, at: float) -> Vector:
        prior, log_x = self.posterior.prior, np.log(at) - self.posterior.prepared.last_log_x
        fraction = expit(prior.grid_exponent * (log_x[:, None] - prior.grid_midpoint))
        return np.asarray((self.posterior.grid_weights() * fraction).sum(axis=1))


@dataclass(frozen=True)
class Coordinates:
    """How configurations become a surface's features: standardised, then a polynomial that their number supports."""

    centre: Vector
    scale: Vector
    degree: int

    @classmethod
    def of(cls, points: ArrayLike) -> "Coordinates":
        """Choose constant, linear or quadratic by how many distinct configurations there are."""
        values = np.atleast_2d(np.asarray(points, dtype=float))
        distinct = len(np.unique(values, axis=0))
        degree = int(distinct >= FEWEST_FOR_LINES) + int(distinct >= FEWEST_FOR_CURVATURE)
        spread = values.std(axis=0)
        return cls(values.mean(axis=0), np.where(spread > 0, spread, 1.0), degree)

    def features(self, points: ArrayLike) -> Vector:
        """Return 1, the standardised coordinates, and their products, as far as the degree goes."""
        z = (np.atleast_2d(np.asarray(points, dtype=float)) - self.centre) / self.scale
        columns = [np.ones(len(z))]
        if self.degree >= 1:
            columns += list(z.T)
        if self.degree >= 2:
            columns += [z[:, i] * z[:, j] for i in range(z.shape[1]) for j in range(i, z.shape[1])]
        return np.stack(columns, axis=1)


def pool(curves: Sequence[Curve], coordinates: ArrayLike, prior: Prior | None = None) -> Pooled:
    """Fit curves together, one row of coordinates for each; several curves may share a configuration (seeds)."""
    known, points = prior or Prior(), np.atleast_2d(np.asarray(coordinates, dtype=float))
    if len(points) != len(curves) or not curves:
        raise InputError(
            f"{len(curves)} curves and {len(points)} rows of coordinates: at least one, and as many, are needed"
        )
    if not np.isfinite(points).all():
        raise InputError("coordinates of configurations must be finite; take logarithms of positive numbers")
    prepared, shape = prepare(curves), Coordinates.of(points)
    features = shape.features(points)
    alone = Beliefs.of(prepared, known)
    posterior = posterior_of(prepared, known, alone)
    moments = _Moments.of(posterior)
    surfaces = (
        _surface(features, moments.asymptote, moments.asymptote_variance, START_SPREAD_A),
        _surface(features, moments.midpoint, moments.midpoint_variance, START_SPREAD_C),
    )
    exponents = np.asarray(known.exponent_weights) / np.sum(known.exponent_weights)
    for _ in range(ROUNDS):
        beliefs = _pooled_beliefs(alone, prepared, known, features, surfaces, exponents)
        posterior = posterior_of(prepared, known, beliefs)
        moments = _Moments.of(posterior)
        widest = known.gain_sd_bounded * float(np.median(prepared.scale))
        surfaces = (
            _updated(features, moments.asymptote, moments.asymptote_variance, surfaces[0], LEAST_SPREAD_A, widest),
            _updated(
                features, moments.midpoint, moments.midpoint_variance, surfaces[1], LEAST_SPREAD_C, WIDEST_SPREAD_C
            ),
        )
        exponents = _exponent_weights(posterior)
    return Pooled(posterior, shape, features, surfaces[0], surfaces[1], exponents)


@dataclass(frozen=True)
class _Moments:
    """Means and variances of A and of log C_mid of every curve, in scores and in log compute."""

    asymptote: Vector
    asymptote_variance: Vector
    midpoint: Vector
    midpoint_variance: Vector

    @classmethod
    def of(cls, posterior: Posterior) -> "_Moments":
        size, scale = posterior.prior.grid_size, posterior.prepared.scale
        weight = posterior.weight[:, :, :size]
        weight = weight / np.maximum(weight.sum(axis=(1, 2), keepdims=True), 1e-300)
        value = (posterior.start + posterior.gain)[:, :, :size]
        inner = (posterior.start_variance + 2 * posterior.covariance + posterior.gain_variance)[:, :, :size]
        mean = (weight * value).sum(axis=(1, 2))
        variance = (weight * (inner + (value - mean[:, None, None]) ** 2)).sum(axis=(1, 2))
        grid, midpoint = weight.sum(axis=1), posterior.prior.grid_midpoint
        middle = (grid * midpoint).sum(axis=1)
        spread = (grid * (midpoint - middle[:, None]) ** 2).sum(axis=1)
        return cls(mean * scale, variance * scale**2, middle + posterior.prepared.last_log_x, spread)


def _surface(features: Vector, mean: Vector, variance: Vector, spread: float) -> Surface:
    """Regress the curves' means on the features, each weighted by what it knows beyond the scatter of all."""
    precision = 1 / (variance + spread**2)
    pull = np.diag([0.0] + [RIDGE / spread**2] * (features.shape[1] - 1)) + 1e-9 * np.eye(features.shape[1])
    covariance = np.asarray(np.linalg.inv(features.T @ (precision[:, None] * features) + pull), dtype=float)
    return Surface(covariance @ (features.T @ (precision * mean)), np.asarray(covariance), spread)


def _updated(features: Vector, mean: Vector, variance: Vector, former: Surface, least: float, widest: float) -> Surface:
    """Take the M step: the surface through the means, and the spread that residuals and their uncertainty leave.

    The means come from posteriors under the former surface, so that every curve counts alike. What the surface itself
    is known by is each curve's own points: its posterior precision less that of the former prior.
    """
    pull = RIDGE * np.diag([0.0] + [1.0] * (features.shape[1] - 1)) + 1e-9 * np.eye(features.shape[1])
    coefficients = np.linalg.solve(features.T @ features + pull, features.T @ mean)
    residual = mean - features @ coefficients
    spread = float(np.clip(np.sqrt(np.mean(residual**2 + variance)), least, widest))
    own = np.maximum(1 / variance - 1 / former.spread**2, LEAST_OWN_SHARE / variance)
    weight = 1 / (1 / own + spread**2)
    covariance = np.asarray(np.linalg.inv(features.T @ (weight[:, None] * features) + pull / widest**2), dtype=float)
    return Surface(np.asarray(coefficients, dtype=float), covariance, spread)


def _pooled_beliefs(
    alone: Beliefs,
    prepared: Prepared,
    prior: Prior,
    features: Vector,
    surfaces: tuple[Surface, Surface],
    exponents: Vector,
) -> Beliefs:
    """Centre each curve's prior on the surfaces; the line and the constant stay what they were."""
    size, scale = prior.grid_size, prepared.scale
    gain_mean, gain_sd, log_weight = alone.gain_mean.copy(), alone.gain_sd.copy(), alone.log_weight.copy()
    gain_mean[:, :size] = (surfaces[0].mean(features) / scale - alone.start_mean)[:, None]
    gain_sd[:, :size] = (surfaces[0].spread / scale)[:, None]
    expected = surfaces[1].mean(features) - prepared.last_log_x
    distance = (prior.grid_midpoint - expected[:, None]) / surfaces[1].spread
    base = prior.grid_log_weight + np.log(exponents / _prior_exponents(prior))[prior.exponent_index]
    pooled = base - 0.5 * distance**2
    log_weight[:, :size] = pooled - logsumexp(pooled, axis=1, keepdims=True) + np.log(prior.share_sigmoid)
    return replace(alone, gain_mean=gain_mean, gain_sd=gain_sd, log_weight=log_weight)


def _exponent_weights(posterior: Posterior) -> Vector:
    """Return the shares of the exponents over all curves, the prior counting as one curve."""
    prior = posterior.prior
    shares = np.zeros(len(prior.exponents))
    np.add.at(shares, prior.exponent_index, posterior.grid_weights().sum(axis=0))
    shares += _prior_exponents(prior)
    return np.asarray(shares / shares.sum())


def _prior_exponents(prior: Prior) -> Vector:
    weights = np.asarray(prior.exponent_weights, dtype=float)
    return np.asarray(weights / weights.sum())
