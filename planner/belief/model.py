"""Sigmoids whose parameters are smooth in the configuration, fitted to all curves at once by Laplace's approximation.

A configuration's mean score has the form of `shape`, with (logit A, log C_mid, log B) = features · coefficients + its
own deviation; each base model has an R0 of its own. A curve departs from that by a Brownian motion in log compute of
its own, by another one that all curves share (those of one task are off alike), and by the noise of its scores. Given
how far configurations and curves may depart, and where the common A and C_mid lie, everything is normal about the mode;
a small grid of those four is averaged by its evidence, so that where configurations tell nothing of each other, or
curves have hardly risen, the data say so.

Arrays are (h, c, …): members of the grid, configurations; (h, i, j): curves, bins.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from planner.belief.features import Features
from planner.belief.points import EMPTY_VARIANCE, KNOTS, TAIL, Points, clock, common_steps, sigmoid
from planner.curves.curve import Vector

# Base (R0 of each base model and the steps of the common departure), coefficients, deviations.
FitState = tuple[Vector, ...]

LOCAL = 3  # logit A, log C_mid, log B
DRIFTS = (0.01, 0.03)
SCATTERS = (0.5, 1.5, 4.5)  # times those below
SCATTER_WEIGHTS = (0.5, 0.3, 0.2)
DRIFT_WEIGHTS = (0.5, 0.5)
# What configurations deviate by of their own. This and the widths of `features` are where complete tables of 17
# families are about the likeliest, also with each left out in turn (bench/results/decisions.md).
SCATTER: Vector = np.array([0.12, 0.16, 0.05])
COMMON = 1.0  # how far all curves depart alike, in terms of how far each does
START_SD = 0.15
HIGHEST_START = 0.98  # R0 of 1 would leave nothing to learn
NO_START = 0.2  # where no score says where runs begin
ROUNDS = 60  # the most that 718 fits in plays needed was 39
TOLERANCE = 0.02  # of the objective, that a step promises at most at the mode
POOR, GOOD = 0.25, 0.75  # shares of what a step promises, below and above which the next one is more or less damped
OUTLIER_MISFIT, MOST_OUTLIER_SCALE = 3.0, 10.0  # misfit per point beyond which a curve is left to itself, and how far
# First only pairs of a top and a middle are fitted; after so many rounds those so far behind in log evidence are left
# out, and the others go on with every scatter and drift, of which some are left out in turn.
FIRST_ROUNDS, SCREENING_NATS, FINAL_NATS = 4, 4.0, 5.0
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-6, 1e8


@dataclass(frozen=True)
class JointFit:
    """The mode and the curvature of every member of the grid."""

    features: Features
    points: Points
    of: NDArray[np.intp]  # the configuration of each curve
    base: Vector  # (h, m + k), R0 of each base model and the steps of the common departure
    coefficients: Vector  # (h, p)
    deviation: Vector  # (h, c, 3)
    own: Vector  # (h, c, 3, 3), curvature of the deviations
    cross: Vector  # (h, c, 3, g)
    shared: Vector  # (h, g, g), curvature of what is common, the deviations marginalised
    whitening: Vector  # (h, i, j, j)
    drift: Vector  # (h,)
    outlier_scale: Vector  # (i,) how many times that a curve departs
    log_evidence: Vector  # (h,)
    promised: Vector  # (h,) by how much another step would have lowered the objective

    @property
    def start(self) -> Vector:
        """(h, c), R0 of each configuration."""
        return np.asarray(self.base[:, self.features.base_model])

    @property
    def weights(self) -> Vector:
        """Of the members."""
        return np.asarray(np.exp(self.log_evidence - logsumexp(self.log_evidence)))

    @property
    def unconverged(self) -> float:
        """The weight of the members that had not come to their modes."""
        return float(self.weights[self.promised >= TOLERANCE].sum())


class JointModel:
    """One set of curves, fitted from wherever the last one ended."""

    whitening: Vector  # (h, i, j, j)
    white_steps: Vector  # (h, i, j, k)
    log_noise: Vector  # (h,)

    def __init__(self, features: Features, points: Points, of: NDArray[np.intp]) -> None:
        self.features, self.points, self.of = features, points, of
        self.prior_mean = np.tile(features.mean, (len(features.levels), 1))  # (h, p)
        self.prior_mean[:, [features.top, features.middle]] = features.levels
        self.prior_precision = 1 / features.sd**2  # (p,)
        self.log_prior = np.log(features.level_weights)
        self.scatter = np.full((len(self.log_prior), 1), SCATTERS[1]) * SCATTER  # (h, 3)
        self.drift = np.full(len(self.log_prior), DRIFTS[0])
        self.steps = common_steps(points.x)  # (i, j, k)
        with np.errstate(divide="ignore"):
            self.log_x = np.where(points.x > 0, np.log(np.maximum(points.x, 1e-30)), -40.0)
        self.outlier_scale = np.ones(len(of))
        self.in_order = np.argsort(of, kind="stable")  # the curves of a configuration one after the other
        self.with_curves, self.first_of = np.unique(of[self.in_order], return_index=True)
        self._whiten()
        self.starts = _starts(points, features.base_model[of], int(features.base_model.max(initial=0)) + 1)
        self.begins = np.eye(len(self.starts))[features.base_model[of]]  # (i, m)
        self.base_mean = np.concatenate([self.starts, np.zeros(KNOTS)])
        self.design = features.design  # (c, 3, p)

    def fit(self) -> JointFit:
        """Find the modes by Levenberg's steps, first of few members, then of many, and last of those that matter."""
        members, count = len(self.log_prior), len(self.design)
        state: FitState = np.tile(self.base_mean, (members, 1)), self.prior_mean, np.zeros((members, count, LOCAL))
        state, rows, value, _ = self._climbed(state, FIRST_ROUNDS)
        state = _of(state, self._spread(self._near(state, rows, value, SCREENING_NATS)))
        state, rows, value, _ = self._climbed(state, FIRST_ROUNDS)
        selected = self._near(state, rows, value, FINAL_NATS)
        self.scatter, self.drift = self.scatter[selected], self.drift[selected]
        self.prior_mean = self.prior_mean[selected]
        self.log_prior, self.log_noise = self.log_prior[selected], self.log_noise[selected]
        self.whitening, self.white_steps = self.whitening[selected], self.white_steps[selected]
        state = _of(state, selected)
        self._scale_outliers(rows[selected[0]])
        state, rows, value, promised = self._climbed(state, ROUNDS)
        log_evidence, local, cross, shared = self._evidence(state, rows, value)
        base, coefficients, deviation = state
        return JointFit(
            self.features,
            self.points,
            self.of,
            base,
            coefficients,
            deviation,
            local,
            cross,
            shared,
            self.whitening,
            self.drift,
            self.outlier_scale,
            log_evidence,
            promised,
        )

    def _evidence(self, state: FitState, rows: Vector, value: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """Return the log evidence by Laplace's approximation, with the curvature that it rests on."""
        # log p(scores | member) ≈ log p(mode) − ½ log |H|; by blocks |H| = |local| · |shared − crossᵀ·local⁻¹·cross|
        local, cross, shared, _, _ = self._curvature(state, rows)
        shared = shared - _over_configurations(cross, inverse(local) @ cross)
        volume = np.linalg.slogdet(local)[1].sum(axis=1) + np.linalg.slogdet(shared)[1]
        scales = len(self.design) * np.log(self.scatter).sum(axis=1) + np.log(self._base_sd).sum(axis=1)
        return self.log_prior - value - self.log_noise - scales - 0.5 * volume, local, cross, shared

    @property
    def _base_sd(self) -> Vector:
        steps = COMMON * self.drift * float(np.sqrt(clock(np.array(1.0)) / KNOTS))
        return np.stack([*[np.full(len(self.drift), START_SD)] * len(self.starts), *[steps] * KNOTS], axis=1)

    def _climbed(self, state: FitState, rounds: int) -> tuple[FitState, Vector, Vector, Vector]:
        """Return where so many steps lead at most, with the whitened rows, the objective, and what a step promised.

        Levenberg's damping follows how much of what a step promises comes true.
        """
        value, rows = self._objective(state)
        damping = np.full(len(value), FIRST_DAMPING)
        for _ in range(rounds):
            step, promised = self._step(state, rows, damping)
            trial = tuple(now + change for now, change in zip(state, step, strict=True))
            new_value, new_rows = self._objective(trial)
            better, came = new_value <= value, value - new_value
            state = tuple(_chosen(better, new, old) for new, old in zip(trial, state, strict=True))
            rows, value = _chosen(better, new_rows, rows), np.where(better, new_value, value)
            factor = np.where(came < POOR * promised, 10.0, np.where(came > GOOD * promised, 0.1, 1.0))
            damping = np.clip(damping * factor, LEAST_DAMPING, MOST_DAMPING)
            if promised.max() < TOLERANCE:
                break
        return state, rows, value, promised

    def _near(self, state: FitState, rows: Vector, value: Vector, behind: float) -> NDArray[np.intp]:
        """Return the members that are not so far behind the best one, which comes first."""
        log_evidence = self._evidence(state, rows, value)[0]
        order = np.argsort(-log_evidence, kind="stable")
        return order[: int((log_evidence >= log_evidence.max() - behind).sum())]

    def _spread(self, members: NDArray[np.intp]) -> NDArray[np.intp]:
        """Go on with some members, each with every scatter and drift; return which of them each comes from."""
        scale, drift = (grid.ravel() for grid in np.meshgrid(SCATTERS, DRIFTS, indexing="ij"))
        weight = np.log(np.outer(SCATTER_WEIGHTS, DRIFT_WEIGHTS)).ravel()
        of = np.repeat(members, len(scale))
        self.prior_mean, self.log_prior = self.prior_mean[of], self.log_prior[of] + np.tile(weight, len(members))
        self.scatter, self.drift = np.tile(scale, len(members))[:, None] * SCATTER, np.tile(drift, len(members))
        self._whiten()
        return of

    def _scale_outliers(self, rows: Vector) -> None:
        """Let curves that fit far worse than the others depart more, so that they do not bend what all share."""
        filled = (self.points.variance < EMPTY_VARIANCE).sum(axis=1)
        misfit = (rows[..., -1] ** 2).sum(axis=1) / filled
        self.outlier_scale = np.where(misfit > OUTLIER_MISFIT, np.minimum(np.sqrt(misfit), MOST_OUTLIER_SCALE), 1.0)
        if (self.outlier_scale > 1).any():
            self._whiten()

    def _whiten(self) -> None:
        """Set L⁻¹ of every curve's covariance, and half its log determinant summed over curves, per member."""
        drift, member = np.unique(self.drift, return_inverse=True)  # many members have the same
        time, identity = self.points.time, np.eye(self.points.x.shape[1])
        # Cov(score_j, score_k) = (drift · outlier scale)² · min(time_j, time_k) + variance_j · [j = k]
        shared = np.minimum(time[:, :, None], time[:, None, :])  # (i, j, j)
        departures = (drift[:, None] * self.outlier_scale)[..., None, None] ** 2 * shared  # (d, i, j, j)
        factors = np.linalg.cholesky(departures + self.points.variance[:, :, None] * identity)
        whitening = np.asarray(np.linalg.solve(factors, np.broadcast_to(identity, factors.shape)))
        log_noise = np.log(np.einsum("dijj->dij", factors)).sum(axis=(1, 2))
        self.whitening, self.log_noise = whitening[member], log_noise[member]
        self.white_steps = (whitening @ self.steps)[member]

    def _objective(self, state: FitState) -> tuple[Vector, Vector]:
        """Return minus the log posterior, up to what does not depend on the state, and whitened rows."""
        base, coefficients, deviation = state
        local = _along(self.design, coefficients) + deviation  # (h, c, 3)
        first_step = len(self.starts)
        from_start = (base[:, :first_step] @ self.begins.T)[..., None]
        score, missing, top, steep = sigmoid(local[:, self.of, None, :], from_start, self.log_x)
        # rows: ∂score / ∂(logit A, log C_mid, log B, R0 of each base model), and the residual
        share = expit(local[:, self.of, 0, None])  # (h, i, 1), (A − R0) / (1 − R0)
        moved = score - from_start
        by_middle = (top - from_start) * steep * TAIL * missing * (1 - missing ** (1 / TAIL))
        rows = np.empty((*score.shape, LOCAL + first_step + 1))
        rows[..., 0] = (1 - share) * moved
        rows[..., 1] = -by_middle
        rows[..., 2] = by_middle * np.clip(self.log_x - local[:, self.of, 1, None], -60.0, 60.0)
        rows[..., LOCAL:-1] = (1 - share * (1 - missing))[..., None] * self.begins[:, None]
        rows[..., -1] = self.points.score - score - _along(self.steps, base[:, first_step:])
        rows = self.whitening @ rows
        white = np.concatenate([rows[..., :-1], self.white_steps, rows[..., -1:]], axis=-1)  # (h, i, j, 4 + m + k)
        residual = white[..., -1]
        value = 0.5 * (residual**2).sum(axis=(1, 2))
        value = value + 0.5 * ((deviation / self.scatter[:, None, :]) ** 2).sum(axis=(1, 2))
        value = value + 0.5 * ((coefficients - self.prior_mean) * self._prior_slope(coefficients)).sum(axis=1)
        return value + 0.5 * (((base - self.base_mean) / self._base_sd) ** 2).sum(axis=1), white

    def _prior_slope(self, coefficients: Vector) -> Vector:
        return np.asarray((coefficients - self.prior_mean) * self.prior_precision)

    def _curvature(self, state: FitState, rows: Vector) -> tuple[Vector, Vector, Vector, Vector, Vector]:
        """Return the blocks of the Gauss–Newton matrix and the gradient's two parts."""
        base, coefficients, deviation = state
        per_curve = rows[..., :LOCAL].swapaxes(2, 3) @ rows  # JᵀJ and Jᵀr of each curve, (h, i, 3, 4 + m + k)
        summed = np.zeros((len(rows), len(self.design), *per_curve.shape[2:]))  # those without a curve have zeros
        summed[:, self.with_curves] = np.add.reduceat(per_curve[:, self.in_order], self.first_of, axis=1)
        inner, with_base, with_rest = summed[..., :LOCAL], summed[..., LOCAL:-1], summed[..., -1]
        local = inner + (np.eye(LOCAL) / self.scatter[:, None, :, None] ** 2)
        spread = inner @ self.design
        cross = np.concatenate([spread, with_base], axis=-1)
        every = rows[..., LOCAL:].reshape(len(rows), -1, rows.shape[-1] - LOCAL)
        of_base, precision = every[..., :-1].swapaxes(1, 2) @ every, self._base_sd**-2.0
        number = self.design.shape[2]
        size = number + len(self.base_mean)
        shared = np.zeros((len(rows), size, size))
        shared[:, :number, :number] = _over_configurations(self.design, spread) + np.diag(self.prior_precision)
        shared[:, :number, number:] = _over_configurations(self.design, with_base)
        shared[:, number:, :number] = shared[:, :number, number:].swapaxes(1, 2)
        shared[:, number:, number:] = of_base[..., :-1] + precision[:, None] * np.eye(precision.shape[1])
        own_slope = with_rest - deviation / self.scatter[:, None, :] ** 2
        smooth_slope = _over_configurations(self.design, with_rest[..., None])[..., 0]
        base_slope = of_base[..., -1] - (base - self.base_mean) * precision
        shared_slope = np.concatenate([smooth_slope - self._prior_slope(coefficients), base_slope], axis=1)
        return local, cross, shared, own_slope, shared_slope

    def _step(self, state: FitState, rows: Vector, damping: Vector) -> tuple[FitState, Vector]:
        """Return a step, and by how much it lowers the objective where that is as curved as it is thought to be."""
        local, cross, shared, local_slope, shared_slope = self._curvature(state, rows)
        local = local + damping[:, None, None, None] * np.einsum("hcll->hcl", local)[..., None] * np.eye(LOCAL)
        diagonal = np.einsum("hgg->hg", shared)
        shared = shared + damping[:, None, None] * diagonal[..., None] * np.eye(shared.shape[1])
        # the deviations are eliminated: (shared − crossᵀ·local⁻¹·cross)·common = slope − crossᵀ·local⁻¹·local slope
        both = inverse(local) @ np.concatenate([cross, local_slope[..., None]], axis=-1)
        outer, inner = both[..., :-1], both[..., -1]
        reduced = shared - _over_configurations(cross, outer)
        right = shared_slope - _over_configurations(cross, inner[..., None])[..., 0]
        common = np.linalg.solve(reduced, right[..., None])[..., 0]
        change = inner - np.einsum("hclg,hg->hcl", outer, common)
        number = self.design.shape[2]
        promised = (local_slope * change).sum(axis=(1, 2)) + (shared_slope * common).sum(axis=1)
        return (common[:, number:], common[:, :number], change), 0.5 * promised


def _starts(points: Points, base_model: NDArray[np.intp], models: int) -> Vector:
    """Return the prior mean of each base model's R0; of one without a curve, that of all."""

    def mean_start(curves: NDArray[np.bool_], otherwise: float) -> float:
        measured = curves & (points.variance[:, 0] < EMPTY_VARIANCE)
        first = points.score[measured, 0] if measured.any() else points.score[curves, 1]
        return float(np.clip(np.mean(first), 0.0, HIGHEST_START)) if len(first) else otherwise

    of_all = mean_start(np.ones(len(base_model), dtype=bool), NO_START)
    return np.array([mean_start(base_model == model, of_all) for model in range(models)])


def inverse(matrices: Vector) -> Vector:
    """Invert symmetric 3 × 3 matrices, many times faster than one call of LAPACK for each."""
    a, b, c = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 0, 2]
    d, e, f = matrices[..., 1, 1], matrices[..., 1, 2], matrices[..., 2, 2]
    first, second, third = d * f - e * e, c * e - b * f, b * e - c * d
    rows = [first, second, third, second, a * f - c * c, b * c - a * e, third, b * c - a * e, a * d - b * b]
    adjugate = np.stack(rows, axis=-1).reshape(matrices.shape)
    return np.asarray(adjugate / (a * first + b * second + c * third)[..., None, None])


def _along(directions: Vector, lengths: Vector) -> Vector:
    """Σ over the last axis of (…, p) with (h, p), as (h, …)."""
    return (lengths @ directions.reshape(-1, directions.shape[-1]).T).reshape(len(lengths), *directions.shape[:-1])


def _over_configurations(first: Vector, second: Vector) -> Vector:
    """Σ over configurations and their parameters of leftᵀ · right."""
    rows = first.reshape(*first.shape[:-3], -1, first.shape[-1])
    return np.asarray(rows.swapaxes(-1, -2) @ second.reshape(len(second), -1, second.shape[-1]))


def _of(state: FitState, members: NDArray[np.intp]) -> FitState:
    return tuple(part[members] for part in state)


def _chosen(better: NDArray[np.bool_], new: Vector, old: Vector) -> Vector:
    return np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)
