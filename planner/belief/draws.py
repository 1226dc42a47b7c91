"""Draws of the fitted model: whole worlds, in which every configuration and every run has its curve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from planner.belief.model import JointFit
from planner.belief.points import KNOTS, STEEPEST, clock, common_steps, remaining_gain
from planner.curves.curve import Vector, pass_rate_variance
from planner.view import Configuration, TrialView

# Beyond the compute that its configuration has reached, the fitted curve leaves a share s of 1 − score. By recorded
# runs s falls by a power of the compute at most once scores are high, whatever the steepness of the rise, and faster
# with large batches, whose lead shrinks: 1 − score = missing · max(s, (C / reach)^−late)^pace. So scores stay below 1,
# and that of a configuration stands where it was seen last.
# Each of AllocBench's five tasks left out, the others are without bias in B at 0.056 to 0.074; drawn tables are
# without it at 0 (bench/results/decisions.md). Rollouts per prompt have no such effect.
PACE_OF_AN_OCTAVE: Final = 0.05  # of prompts per batch: the logarithm of the share counts by exp of so much more
LATE_SCORE: Final = 0.7  # from which on the power law holds
# Medians of AllocBench's six tables lie between 0.40 and 1.09; within one the logarithm varies by 0.16 to 0.23.
LATE_EXPONENT: Final = 0.7
TASK_SD, CONFIGURATION_SD = 0.4, 0.2  # of its logarithm
LEAST_MISSING: Final = 1e-6  # of a score


def paces(configurations: Sequence[Configuration], of: NDArray[np.intp]) -> Vector:
    """Return how fast each configuration closes what is missing, beside the mean of those that runs are of."""
    octaves = np.log2([configuration.prompts_per_batch for configuration in configurations])
    return np.asarray(np.exp(PACE_OF_AN_OCTAVE * (octaves - octaves[of].mean()))) if len(of) else np.ones(len(octaves))


def draw_late_exponents(size: int, configurations: int, generator: np.random.Generator) -> Vector:
    """Draw exponents that a task's configurations mostly have alike."""
    task, per_configuration = generator.standard_normal((size, 1)), generator.standard_normal((size, configurations))
    return np.asarray(LATE_EXPONENT * np.exp(TASK_SD * task + CONFIGURATION_SD * per_configuration))


def extrapolated(scores: Vector, at_reach: Vector, e_folds: Vector, late_exponent: Vector, pace: Vector) -> Vector:
    """Return draws × rows of scores so many e-folds of compute beyond where curves were `at_reach`."""
    missing = np.maximum(1 - at_reach, LEAST_MISSING)
    share = np.maximum(1 - scores, LEAST_MISSING) / missing
    np.maximum(share, np.exp(-e_folds * late_exponent), out=share, where=at_reach >= LATE_SCORE)
    return np.asarray(1 - missing * share**pace)


EARLIEST = 1e-12
FARTHEST = 60.0  # |log(C_mid / target)| that is told
LEVEL_WITHIN = 1e-12  # scores that were clipped are level
# How far all curves leave alike what was predicted of them, per squared unit of the clock since any was last seen.
# Where their shape is not quite the one assumed, all predictions are off alike, and more so the farther;
# as far as one curve has come, it shows by how much. Without it 90 % of ends within the target would be held, not 93,
# but 80 % at ten times the plan's own, not 93 (bench/results/decisions.md).
SHARED_DEPARTURE = 0.012
# From 0 to a half nothing changes (the same page).
OWN_DEPARTURE = 0.5  # how much of a fresh run's departure is its configuration's own; the rest is luck of that seed


@dataclass(frozen=True)
class Runs:
    """The runs behind the curves: their configuration, their compute in targets, and the level if they collapsed.

    Of a configuration the first is the one that a final run would go on from.
    """

    trials: tuple[int, ...]
    of: NDArray[np.intp]
    reached: Vector
    collapsed: Vector  # NaN for those that did not


@dataclass(frozen=True)
class JointDraws:
    """Draws of the parameters, and of how far each curve has departed from its sigmoid at its last point."""

    configurations: tuple[Configuration, ...]
    target: float
    local: Vector  # (s, c, 3)
    start: Vector  # (s, c)
    common: Vector  # (s, k) steps of what all curves depart alike
    drift: Vector  # (s,)
    outlier_scale: Vector  # (i,)
    runs: Runs
    noise_of_a_score: float  # variance
    departed: Vector  # (s, i) at that point
    shared_noise: Vector  # (s,) standard normal, of what is still to come of all curves alike
    noise: Vector  # (s, i) and of each
    unseen_noise: Vector  # (s, c)
    late: Vector  # (s, c) the exponent with which 1 − score falls once it is low
    unconverged: float = 0.0  # weight of the members of the fit that had not come to their modes

    def scores(self, gpu_hours: Sequence[float | Vector]) -> Vector:
        """Return draws × configurations × computes, each one for all or one for each configuration."""
        return np.stack([self.at(compute / self.target) for compute in gpu_hours], axis=-1)

    def at(self, x: float | Vector) -> Vector:
        """Return draws × configurations: of each its longest run, which a final run goes on from, as it would go on.

        Of one without a run it is what any run tends to: with the luck of one run in it, the best of many such
        configurations would look better than any is. `x` is one compute for all, or one for each.
        """
        count = len(self.configurations)
        longest = np.full(count, -1)
        longest[self.runs.of[::-1]] = np.arange(len(self.runs.of))[::-1]  # the longest comes first, and stays
        ends = np.broadcast_to(np.asarray(x, dtype=float), count)[:, None]
        scores = self.observed(np.arange(count), longest, ends, OWN_DEPARTURE)[:, :, 0]
        return np.asarray(np.clip(scores, 0.0, 1.0))

    def parameters(self, place: int) -> dict[str, Vector]:
        """Return draws of a configuration's sigmoid: R0, A, B, and C_mid in GPU-hours."""
        steep, middle, gain = (shape[:, place] for shape in self._shapes)
        middle = self.target * np.exp(np.clip(middle, -FARTHEST, FARTHEST))
        start = self.start[:, place]
        return {"R0": start, "A": start + gain, "B": steep, "C_mid": middle}

    def common_departure(self, x: Vector) -> Vector:
        """Return draws × computes of how far all curves depart alike; `x` may have more than one axis."""
        return np.asarray(np.tensordot(self.common, common_steps(x), axes=(1, -1)))

    def observed(
        self, configuration: NDArray[np.intp], run: NDArray[np.intp], x: Vector, departing: float = 1.0
    ) -> Vector:
        """Return draws × rows × computes of what runs would score, a row of computes for each.

        `run` is the place of a curve, or −1 for a run of the configuration that has not begun; such a one departs
        from its sigmoid `departing` times as far as others.
        """
        steep, middle, gain = (shape[:, configuration] for shape in self._shapes)
        top = self.start[:, configuration] + gain  # (s, r): draws, rows; A of each
        begun = run >= 0
        curves = run[begun]
        noise, scale = self.unseen_noise[:, configuration], np.full(len(run), departing)
        noise[:, begun], scale[begun] = self.noise[:, curves], self.outlier_scale[curves]
        strayed = self.drift[:, None] * scale * noise  # (s, r) per √ of the clock
        reached, alone = clock(self.runs.reached), np.zeros(len(run))  # since when each departs
        alone[begun] = reached[curves]
        farthest = reached.max(initial=0.0)  # since when all depart alike
        level = np.full(len(run), np.nan)
        level[begun] = self.runs.collapsed[curves]
        collapsed = ~np.isnan(level)

        def fitted(ends: Vector) -> Vector:
            scores = _risen(ends, steep, middle, gain, top)
            scores += self.common_departure(ends)
            scores[:, begun] += self.departed[:, curves]
            return scores

        reach = self.reach[configuration]
        at_reach, late, pace = fitted(reach), self.late[:, configuration], self._paces[configuration]

        def after(place: int) -> Vector:
            time, scores = clock(x[:, place]), fitted(x[:, place])
            far = np.flatnonzero(x[:, place] > reach)
            e_folds = np.log(x[far, place] / reach[far])
            scores[:, far] = extrapolated(scores[:, far], at_reach[:, far], e_folds, late[:, far], pace[far])
            # a Brownian motion from a run's last score on, and what all curves share from the last score of any
            further = strayed * np.sqrt(np.maximum(time - alone, 0.0))
            further += self.shared_noise[:, None] * (SHARED_DEPARTURE * np.maximum(time - farthest, 0.0) ** 2)
            _depart(scores, further)
            scores[:, collapsed] = level[collapsed]
            return scores

        return np.stack([after(place) for place in range(x.shape[1])], axis=-1)

    @cached_property
    def at_target(self) -> Vector:
        """Draws × configurations at the target, which every decision looks at several times."""
        return self.at(1.0)

    @cached_property
    def place(self) -> Mapping[Configuration, int]:
        """The column of each configuration."""
        return {configuration: column for column, configuration in enumerate(self.configurations)}

    @cached_property
    def run_of(self) -> Mapping[int, int]:
        """The curve of each trial that was fitted."""
        return {trial: curve for curve, trial in enumerate(self.runs.trials)}

    def rows_of(self, trials: Sequence[TrialView]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the place of each trial's configuration, and its curve, −1 for one that was not fitted."""
        places = [self.place[trial.configuration] for trial in trials]
        runs = [self.run_of.get(trial.trial, -1) for trial in trials]
        return np.array(places, dtype=np.intp), np.array(runs, dtype=np.intp)

    @cached_property
    def reach(self) -> Vector:
        """The farthest compute of each configuration's runs; one without a run is extrapolated from nowhere."""
        reach = np.zeros(len(self.configurations))
        np.maximum.at(reach, self.runs.of, self.runs.reached)
        return np.where(reach > 0, reach, np.inf)

    @cached_property
    def _paces(self) -> Vector:
        return paces(self.configurations, self.runs.of)

    @cached_property
    def _shapes(self) -> tuple[Vector, Vector, Vector]:
        return _shapes(self.local, self.start)


def _shapes(local: Vector, start: Vector) -> tuple[Vector, Vector, Vector]:
    """Return B, log C_mid, and the gain from R0 to A."""
    steep = np.exp(np.clip(local[..., 2], -STEEPEST, STEEPEST))
    return steep, local[..., 1], (1 - start) * expit(local[..., 0])


def _risen(x: Vector, steep: Vector, middle: Vector, gain: Vector, top: Vector) -> Vector:
    """Return draws × rows of curves at a compute of each; in place, since a decision spends much of its time here."""
    scores: Vector = np.log(np.maximum(x, EARLIEST)) - middle
    scores *= steep
    remaining_gain(scores)
    scores *= -gain
    scores += top
    return scores


def _depart(scores: Vector, further: Vector) -> None:
    """Let scores depart, in place, by so many standard deviations of a single answer's score, times two.

    Near 0 and 1 there is little room to depart, up and down alike: if departures were clipped on one side alone,
    expectations would fall with the distance, and a larger budget be worse.
    """
    spread = pass_rate_variance(scores)
    np.sqrt(spread, out=spread)
    further *= spread
    further *= 2
    room = np.maximum(np.minimum(scores, 1.0 - scores), 0.0)
    scores += np.clip(further, -room, room, out=further)


def shares_of_best(scores: Vector) -> Vector:
    """Return how often each column is the highest of its row; those that are level share it."""
    highest = scores >= scores.max(axis=1, keepdims=True) - LEVEL_WITHIN
    return np.asarray((highest / highest.sum(axis=1, keepdims=True)).mean(axis=0))


def draw(
    fit: JointFit,
    configurations: tuple[Configuration, ...],
    target: float,
    runs: Runs,
    size: int,
    generator: np.random.Generator,
) -> JointDraws:
    """Draw worlds, each member of the grid as often as its weight says."""
    # Systematic sampling wastes no draw on chance.
    places = (np.arange(size) + generator.random()) / size
    member = np.minimum(np.searchsorted(np.cumsum(fit.weights), places), len(fit.weights) - 1)
    count, curves = len(configurations), len(runs.of)
    local, base = np.empty((size, count, 3)), np.empty((size, fit.base.shape[1]))
    departed = np.zeros((size, curves))
    for number in np.unique(member):
        rows = np.flatnonzero(member == number)
        local[rows], base[rows] = _parameters(fit, int(number), len(rows), generator)
        departed[rows] = _departed(fit, int(number), local[rows], base[rows], runs.reached, generator)
    return JointDraws(
        configurations,
        target,
        local,
        base[:, fit.features.base_model],
        base[:, -KNOTS:],
        fit.drift[member],
        fit.outlier_scale,
        runs,
        fit.points.of_one_score,
        departed,
        _centred(generator, size),
        _centred(generator, size, curves),
        _centred(generator, size, count),
        draw_late_exponents(size, count, generator),
        fit.unconverged,
    )


def _centred(generator: np.random.Generator, *shape: int) -> Vector:
    """Draw standard normal numbers that have no mean, so that what is yet to come moves no expectation."""
    drawn = generator.standard_normal(shape)
    return np.asarray(drawn - drawn.mean(axis=0))


def _parameters(fit: JointFit, member: int, size: int, generator: np.random.Generator) -> tuple[Vector, Vector]:
    shared = fit.shared[member]
    # common ~ N(0, shared⁻¹); of each configuration change | common ~ N(−own⁻¹·cross·common, own⁻¹)
    root = np.linalg.cholesky(np.linalg.inv(shared + 1e-9 * np.eye(len(shared))))
    common = generator.standard_normal((size, len(shared))) @ root.T  # (s, g)
    own_inverse = np.linalg.inv(fit.own[member])
    response = own_inverse @ fit.cross[member]  # (c, 3, g)
    own_root = np.linalg.cholesky(own_inverse)
    noise = generator.standard_normal((size, len(own_inverse), 3))
    count = len(own_inverse)
    change = (own_root @ noise[..., None])[..., 0] - (common @ response.reshape(3 * count, -1).T).reshape(
        size, count, 3
    )
    number = fit.coefficients.shape[1]
    coefficients = fit.coefficients[member] + common[:, :number]
    smooth = (coefficients @ fit.features.design.reshape(3 * count, -1).T).reshape(size, count, 3)
    local = smooth + fit.deviation[member] + change
    return local, fit.base[member] + common[:, number:]


def _departed(
    fit: JointFit, member: int, local: Vector, base: Vector, reached: Vector, generator: np.random.Generator
) -> Vector:
    """Draw each curve's departure at its last point: a normal given what the draw leaves unexplained."""
    points, drift = fit.points, float(fit.drift[member]) * fit.outlier_scale
    if not len(fit.of):
        return np.zeros((len(base), 0))
    time = clock(reached)
    towards = drift[:, None] ** 2 * np.minimum(points.time, time[:, None])  # (i, j)
    # given the residuals r with covariance Σ = L·Lᵀ: N(towards·Σ⁻¹·r, drift²·time − towards·Σ⁻¹·towardsᵀ)
    white = fit.whitening[member]  # L⁻¹, (i, j, j)
    cross_cov = np.einsum("ijk,ik->ij", white, towards)
    weight = np.einsum("ijk,ij->ik", white, cross_cov)  # (i, j), Σ⁻¹·towards
    rest = np.maximum(drift**2 * time - (cross_cov**2).sum(axis=1), 0.0)
    start = base[:, fit.features.base_model]
    steep, middle, gain = (shape[:, fit.of] for shape in _shapes(local, start))
    gained = np.log(np.maximum(points.x, 1e-17)) - middle[:, :, None]
    gained *= steep[:, :, None]
    np.subtract(1.0, remaining_gain(gained), out=gained)
    # By weight at once, so that no array of what is left of the scores, draws × curves × bins, has to be made.
    expected = gain * np.einsum("sij,ij->si", gained, weight) + start[:, fit.of] * weight.sum(axis=1)
    expected += base[:, -KNOTS:] @ np.einsum("ijk,ij->ki", common_steps(points.x), weight)
    mean = (points.score * weight).sum(axis=1) - expected
    return np.asarray(mean + np.sqrt(rest) * generator.standard_normal(mean.shape))
