"""The posterior of learning curves by exact quadrature: everything is linear and normal given a point of a small grid.

A score is R0 + gain · g(C) + δ(log C) + noise with g from the prior's grid (sigmoids, a line, nothing) and a Brownian
discrepancy δ. Given g, the drift of δ and the noise, (R0, gain) and the prediction are normal, and the evidence has a
closed form; the posterior is the mixture over the grid. No optimiser, no sampling.

Arrays are (n, h, c): curves, pairs of drift and noise, basis functions.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from scipy.special import expit, ndtr

from planner.curves.curve import Curve, Vector
from planner.curves.mixtures import Mixtures
from planner.curves.preparation import Prepared, prepare

VISIBLE_UNTIL = 0.4  # log compute beyond the last point, up to which a rise's foot shows before it


@dataclass(frozen=True)
class Prior:
    """What is believed of a curve before its points are seen: grids, weights and scales.

    The mean function is one of: the sigmoid R0 + gain / (1 + (C_mid/C)^B) on a grid of (B, C_mid), a line in log C, or
    a constant. On top of it lies a Brownian discrepancy in log C, which lets real curves have shoulders and slides and
    makes the interval grow with the extrapolation. The numbers were chosen by the benchmark (docs/concepts/curves.md),
    on shapes of curves and not on single ones. Compute is relative to the last point, scores to the curve's scale.
    """

    exponents: tuple[float, ...] = (0.5, 0.8, 1.2, 1.8, 2.8, 4.5, 7.5, 13.0)
    # Steep rises are given more weight than their share of runs: where nothing has happened yet, they carry the chance
    # of a late start, and where something has, the points decide.
    exponent_weights: tuple[float, ...] = (0.3, 0.4, 0.6, 0.8, 1.2, 1.6, 2.2, 3.0)
    earliest_midpoint: float = 0.02
    latest_midpoint: float = 12.0
    coarsest_step: float = 0.4
    step_of_width: float = 1.3
    share_sigmoid: float = 0.80
    share_line: float = 0.15
    share_constant: float = 0.05
    # Gain A − R0: of the scale when that is [0, 1], else of the spread seen so far.
    gain_mean_bounded: float = 0.7
    gain_sd_bounded: float = 0.5
    gain_mean_unbounded: float = 1.0
    gain_sd_unbounded: float = 0.8
    start_sd: float = 0.5
    slope_mean: float = 0.015
    slope_sd: float = 0.012
    # Standard deviations of the discrepancy per unit of log C; beyond the last point they count `future_drift` times,
    # because within the window the mean function has taken up part of it.
    drifts: tuple[float, ...] = (0.012, 0.035, 0.10, 0.28)
    drift_weights: tuple[float, ...] = (1.0, 1.5, 1.0, 0.5)
    future_drift: float = 2.0
    noise_factors: tuple[float, ...] = (0.88, 1.5)
    # The chance of something that no earlier point announces (collapse, slide, second rise), far beyond the window.
    surprise: float = 0.13
    surprise_sd: float = 0.30

    grid_exponent: Vector = field(init=False, repr=False, compare=False)
    grid_midpoint: Vector = field(init=False, repr=False, compare=False)
    log_weights: Vector = field(init=False, repr=False, compare=False)  # of the grid, the line and the constant
    log_hyper_weights: Vector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exponents, midpoints, log_weights = [], [], []
        shares = np.asarray(self.exponent_weights, dtype=float) / np.sum(self.exponent_weights)
        first, last = np.log(self.earliest_midpoint), np.log(self.latest_midpoint)
        unseen = np.arange(VISIBLE_UNTIL + self.coarsest_step, last, self.coarsest_step)
        for exponent, share in zip(self.exponents, shares, strict=True):
            # By the width of the rise, 1/B, where points may have seen it, and coarsely beyond.
            step = min(self.coarsest_step, self.step_of_width / exponent)
            grid = np.concatenate([np.arange(VISIBLE_UNTIL, first - 1e-9, -step)[::-1], unseen])
            # Each midpoint stands for the stretch of log C around it, so that a finer grid is no stronger prior.
            width = np.gradient(grid)
            exponents.append(np.full(len(grid), exponent))
            midpoints.append(grid)
            log_weights.append(np.log(self.share_sigmoid * share * width / width.sum()))
        object.__setattr__(self, "grid_exponent", np.concatenate(exponents))
        object.__setattr__(self, "grid_midpoint", np.concatenate(midpoints))
        log_weights.append(np.log([self.share_line, self.share_constant]))
        object.__setattr__(self, "log_weights", np.concatenate(log_weights))
        hyper = np.repeat(np.asarray(self.drift_weights, dtype=float), len(self.noise_factors))
        object.__setattr__(self, "log_hyper_weights", np.log(hyper / hyper.sum()))

    @property
    def grid_size(self) -> int:
        """How many pairs (B, C_mid) the grid has."""
        return len(self.grid_exponent)


Result = TypeVar("Result")

THREADS = 2
CHUNK = 64  # curves at a time: what the processor's cache holds
NEGLIGIBLE = 20.0  # in log evidence below the best component
KEPT = 32  # heaviest components of a predictive mixture; the rest are merged
LEAST_VARIANCE = 1e-16
EARLY_BINS = 3  # around which R0 is thought to lie


@dataclass(frozen=True)
class Design:
    """Whitened columns (n, h, m, 2 + c): one, the scores, then the basis; and what whitened them."""

    origin: Vector
    time: Vector
    drift: Vector
    matrix: Vector
    whitened: Vector
    log_determinant: Vector


@dataclass(frozen=True)
class Posterior:
    """Weights of the grid's components, and the normal distribution of (R0, gain) under each, in units of the scale."""

    prepared: Prepared
    prior: Prior
    design: Design
    weight: Vector
    start: Vector
    gain: Vector
    start_variance: Vector
    gain_variance: Vector
    covariance: Vector

    def predict(self, at: Vector) -> Mixtures:
        """Return the distribution of the mean score at one compute per curve."""
        design, prior = self.design, self.prior
        with np.errstate(divide="ignore"):
            log_x = np.log(at) - self.prepared.last_log_x
        time = log_x - design.origin
        drift_variance = design.drift**2
        reached = np.clip(time[:, None], 0.0, design.time)
        kernel = drift_variance[None, :, None] * reached[:, None, :]
        cross_cov = np.einsum("nhij,nhj->nhi", design.matrix, kernel)
        carried = (cross_cov[:, :, None, :] @ design.whitened)[:, :, 0]
        one, level = 1 - carried[:, :, :1], carried[:, :, 1:2]
        slope = _basis_at(log_x, design.origin, prior)[:, None, :] - carried[:, :, 2:]
        beyond = np.maximum(0.0, time - design.time[:, -1])
        rest = drift_variance * np.maximum(time, 0.0)[:, None] - (cross_cov**2).sum(axis=2)
        rest = np.maximum(rest, 0.0) + (prior.future_drift**2 - 1) * drift_variance * beyond[:, None]
        mean = level + one * self.start + slope * self.gain
        variance = one**2 * self.start_variance + 2 * one * slope * self.covariance + slope**2 * self.gain_variance
        expected = self._mixtures(self.weight, mean, variance + rest[:, :, None])
        # The chance of what no earlier point announces grows with the distance.
        chance = (prior.surprise * (1 - np.exp(-beyond)))[:, None]
        centre = (expected.weight * expected.mean).sum(axis=1, keepdims=True)
        return Mixtures(
            np.hstack([expected.weight * (1 - chance), chance]),
            np.hstack([expected.mean, centre]),
            np.hstack([expected.sd, prior.surprise_sd * self.prepared.scale[:, None]]),
            expected.low,
            expected.high,
        )

    def asymptote(self) -> Mixtures:
        """Return the distribution of A, given that the curve is a sigmoid."""
        variance = self.start_variance + 2 * self.covariance + self.gain_variance
        return self._of_sigmoids(self.start + self.gain, variance)

    def initial_score(self) -> Mixtures:
        """Return the distribution of R0, given that the curve is a sigmoid."""
        return self._of_sigmoids(self.start, self.start_variance)

    def grid_weights(self) -> Vector:
        """Return the weights of the grid of (B, C_mid), given that the curve is a sigmoid: (n, grid)."""
        weights = self.weight[:, :, : self.prior.grid_size].sum(axis=1)
        return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300))

    def _of_sigmoids(self, mean: Vector, variance: Vector) -> Mixtures:
        size = self.prior.grid_size
        return self._mixtures(self.weight[:, :, :size], mean[:, :, :size], variance[:, :, :size])

    def _mixtures(self, weight: Vector, mean: Vector, variance: Vector) -> Mixtures:
        """Go back to each curve's own scale, within the bounds of its scores."""
        n, scale = len(weight), self.prepared.scale[:, None]
        sd = np.sqrt(np.maximum(variance, LEAST_VARIANCE)).reshape(n, -1) * scale
        bounded = self.prepared.bounded
        low, high = np.where(bounded, 0.0, -np.inf), np.where(bounded, 1.0, np.inf)
        return Mixtures.condensed(weight.reshape(n, -1), mean.reshape(n, -1) * scale, sd, low, high, KEPT)


def posterior_of(prepared: Prepared, prior: Prior) -> Posterior:
    """Return the posterior of a chunk of curves."""
    design = _design_of(prepared, prior)
    one, basis = design.whitened[..., 0], design.whitened[..., 2:]
    early = prepared.weight * (np.cumsum(prepared.weight > 0, axis=1) <= EARLY_BINS)  # R0 is thought to lie around them
    centre = ((early * prepared.score).sum(axis=1) / np.maximum(early.sum(axis=1), 1e-300))[:, None, None]
    # Scores are taken from where R0 is centred: squares of a large offset would drown what the points say in rounding.
    score = design.whitened[..., 1] - centre * one
    s11, s1y, syy = ((a * b).sum(axis=2)[:, :, None] for a, b in ((one, one), (one, score), (score, score)))
    both = np.stack([one, score], axis=2) @ basis
    sgg = np.einsum("nhmc,nhmc->nhc", basis, basis)
    mean, sd = _gains(prepared, prior)[:, :, None, :]
    precision = 1 / sd**2
    start_precision = 1 / prior.start_sd**2
    a11, a12, a22 = s11 + start_precision, both[:, :, 0], sgg + precision
    b1, b2 = s1y, both[:, :, 1] + precision * mean
    determinant = a11 * a22 - a12**2
    offset, gain = (a22 * b1 - a12 * b2) / determinant, (a11 * b2 - a12 * b1) / determinant
    start = centre + offset
    evidence = 0.5 * (b1 * offset + b2 * gain - syy - precision * mean**2)
    evidence += 0.5 * np.log(start_precision * precision / determinant) - 0.5 * design.log_determinant[:, :, None]
    evidence += prior.log_weights + prior.log_hyper_weights[:, None]
    start_variance, gain_variance, covariance = a22 / determinant, a11 / determinant, -a12 / determinant
    asymptote = start + gain, start_variance + 2 * covariance + gain_variance
    _keep_within_bounds(evidence, asymptote, (centre + mean, prior.start_sd**2 + 1 / precision), prepared, prior)
    weight = np.exp(evidence - evidence.max(axis=(1, 2), keepdims=True))
    return Posterior(
        prepared=prepared,
        prior=prior,
        design=design,
        weight=weight / weight.sum(axis=(1, 2), keepdims=True),
        start=start,
        gain=gain,
        start_variance=start_variance,
        gain_variance=gain_variance,
        covariance=covariance,
    )


def over_chunks(
    curves: Sequence[Curve], work: Callable[[slice, Posterior], Result], prior: Prior | None = None
) -> list[Result]:
    """Do some work on the posterior of every chunk of curves, and return the results in order.

    Chunks go to a few threads, since numpy leaves Python's lock alone for most of the time. Each curve needs at least
    one point at positive compute.
    """
    if not curves:
        return []
    curve_prior, prepared = prior or Prior(), prepare(curves)

    def result(begin: int) -> Result:
        rows = slice(begin, min(begin + CHUNK, len(curves)))
        part = prepared.part(rows)
        return work(rows, posterior_of(part, curve_prior))

    begins = range(0, len(curves), CHUNK)
    if len(begins) == 1:
        return [result(0)]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(result, begins))


def _design_of(prepared: Prepared, prior: Prior) -> Design:
    """Lay out the columns of every curve's bins, and whiten them."""
    drift, factor = (part.ravel() for part in np.meshgrid(prior.drifts, prior.noise_factors, indexing="ij"))
    origin = prepared.log_x[:, 0]
    time = prepared.log_x - origin[:, None]
    matrix, log_determinant = _whitening(time, prepared.variance[:, None, :] * factor[None, :, None] ** 2, drift)
    basis = _basis_at(prepared.log_x, origin, prior)
    basis[:, 0] = 0.0
    columns = np.concatenate([np.ones_like(time)[..., None], prepared.score[..., None], basis], axis=2)
    return Design(
        origin=origin,
        time=time,
        drift=drift,
        matrix=matrix,
        whitened=matrix @ columns[:, None],
        log_determinant=log_determinant,
    )


def _basis_at(log_x: Vector, origin: Vector, prior: Prior) -> Vector:
    """Return the sigmoids, the line and nothing at log x (n, …) relative to the last point; −∞ is before training."""
    sigmoid = expit(prior.grid_exponent * (log_x[..., None] - prior.grid_midpoint))
    start = origin if log_x.ndim == 1 else origin[:, None]
    line = np.maximum(log_x, start) - start
    return np.concatenate([sigmoid, line[..., None], np.zeros_like(line)[..., None]], axis=-1)


def _whitening(time: Vector, variance: Vector, drift: Vector) -> tuple[Vector, Vector]:
    """Make observations of a Brownian motion in noise independent: the Kalman filter, run on unit vectors.

    Returned are matrices (n, h, m, m) for n curves and h pairs of drift and noise, and log determinants of the
    covariances (n, h).

    The discrepancy δ(t) starts at 0 and has variance drift²·t; a bin sees it with noise. Row i of the matrix gives the
    standardised innovation of bin i as a linear function of all bins, so that W·y is white, WᵀW is the inverse
    covariance, and the same matrix serves every basis function. An infinite variance is a bin without an observation.
    """
    n, h, m = variance.shape
    matrix = np.zeros((n, h, m, m))
    level = np.zeros((n, h, m))
    uncertainty = np.zeros((n, h))
    log_determinant = np.zeros((n, h))
    passed = np.diff(time, axis=1, prepend=time[:, :1])
    for i in range(m):
        uncertainty = uncertainty + drift**2 * passed[:, i : i + 1]
        observed = np.isfinite(variance[:, :, i])
        total = np.where(observed, uncertainty + variance[:, :, i], 1.0)
        innovation = -level
        innovation[:, :, i] += 1.0
        innovation = np.where(observed[:, :, None], innovation, 0.0)
        matrix[:, :, i, :] = innovation / np.sqrt(total)[:, :, None]
        log_determinant += np.where(observed, np.log(total), 0.0)
        gain = np.where(observed, uncertainty / total, 0.0)
        level = level + gain[:, :, None] * innovation
        uncertainty = uncertainty * (1 - gain)
    return matrix, log_determinant


def _keep_within_bounds(
    evidence: Vector,
    asymptote: tuple[Vector, Vector],
    expected: tuple[Vector, Vector],
    prepared: Prepared,
    prior: Prior,
) -> None:
    """Change the evidence of sigmoids to that under a prior whose asymptote lies within [0, 1].

    Truncating the prior multiplies the evidence by P(A in [0, 1] | points) / P(A in [0, 1]).
    """
    truncated = np.zeros(evidence.shape, dtype=bool)
    truncated[prepared.bounded, :, : prior.grid_size] = True
    evidence -= np.where(truncated, _log_share_inside(*expected), 0.0)
    matters = truncated & (evidence > evidence.max(axis=(1, 2), keepdims=True) - NEGLIGIBLE)
    evidence[matters] += _log_share_inside(asymptote[0][matters], asymptote[1][matters])


def _log_share_inside(mean: Vector, variance: Vector) -> Vector:
    """Return the log probability that a normal asymptote lies within [0, 1]."""
    sd = np.sqrt(np.maximum(variance, LEAST_VARIANCE))
    return np.asarray(np.log(np.maximum(ndtr((1 - mean) / sd) - ndtr(-mean / sd), 1e-12)))


def _gains(prepared: Prepared, prior: Prior) -> Vector:
    """Return the mean and the standard deviation of the gain under each basis function: (2, n, c)."""
    bounded = [[prior.gain_mean_bounded], [prior.gain_sd_bounded]]
    unbounded = [[prior.gain_mean_unbounded], [prior.gain_sd_unbounded]]
    sigmoids = np.repeat(np.where(prepared.bounded, bounded, unbounded)[..., None], prior.grid_size, axis=2)
    others = np.broadcast_to([[[prior.slope_mean, 0.0]], [[prior.slope_sd, 1.0]]], (2, prepared.curves, 2))
    return np.concatenate([sigmoids, others], axis=2)
