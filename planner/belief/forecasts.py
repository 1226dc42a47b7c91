"""Forecasts of single runs by the belief: bands of their curves, and what they still have to gain."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.belief.draws import JointDraws
from planner.belief.points import ORIGIN, binned, clock, sigmoid, stacked
from planner.belief.pool import DRAWS, joint_of
from planner.curves.curve import Curve, Vector
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_ENDS
from planner.view import ScorePoint, TrialState, TrialView, View

PLACES = 40
QUANTILES = (0.5, *INTERVAL_ENDS)
BAND_DRAWS = 1000  # of those that there are: an edge of a band is then right within a percent of probability
AT_ONCE = 8  # curves, so that what is computed at once stays small
EARLIEST = 1e-12  # of the target, where its logarithm is taken


@dataclass(frozen=True, slots=True)
class Band:
    """The median and a 90 % interval of a trial's mean score along its GPU-hours, from 0 to the target."""

    gpu_hours: tuple[float, ...]
    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def bands_of(joint: JointDraws, trials: Sequence[TrialView]) -> dict[int, Band]:
    """Return the band of every trial that has a curve; those of a run that was not fitted are its configuration's.

    Up to its last score a run is where its scores say, within their noise; from there on it is where the worlds have
    it, and one that has collapsed stays where it fell.
    """
    # Evenly spaced draws keep the share of every member of the fit, and each is a whole world still.
    rows = np.linspace(0, len(joint.start) - 1, min(BAND_DRAWS, len(joint.start))).astype(np.intp)
    of_draws = ("local", "start", "common", "shared_noise", "drift", "departed", "noise", "unseen_noise", "late")
    drawn = replace(joint, **{name: getattr(joint, name)[rows] for name in of_draws})
    before = _Before(drawn, trials)
    bands: dict[int, Band] = {}
    for start in range(0, len(trials), AT_ONCE):
        part = trials[start : start + AT_ONCE]
        places, runs = joint.rows_of(part)
        reached = np.array([trial.scores[-1].gpu_hours for trial in part]) / joint.target
        x = np.stack([_places(share) for share in reached])
        scores = drawn.observed(places, runs, x)
        for row, run in enumerate(runs):
            if run >= 0:
                early = x[row] <= before.until(int(run))
                scores[:, row, early] = before.scores(int(run), x[row, early])
        low_mid_high = np.quantile(np.clip(scores, 0.0, 1.0), QUANTILES, axis=0)
        for row, trial in enumerate(part):
            median, low, high = low_mid_high[:, row]
            bands[trial.trial] = Band(_numbers(x[row] * joint.target), _numbers(median), _numbers(low), _numbers(high))
    return bands


class _Before:
    """Where fitted runs were up to their last score: on the sigmoid, with what their scores say they depart from it."""

    def __init__(self, joint: JointDraws, trials: Iterable[TrialView]) -> None:
        by_trial = {trial.trial: trial for trial in trials}
        bins = [binned(by_trial[trial].scores) for trial in joint.runs.trials]
        self._joint, self._points = joint, stacked(bins, joint.target)
        # A run that has collapsed stays where it fell, and its bins have only what was before.
        self._until = self._points.x.max(axis=1)
        self._noise = np.random.default_rng(0).standard_normal(len(joint.drift))

    def until(self, run: int) -> float:
        """Return the compute, in targets, up to which the run's scores say where it was."""
        return float(self._until[run])

    def scores(self, run: int, x: Vector) -> Vector:
        """Return draws × computes of one run's scores."""
        joint, points = self._joint, self._points
        rest = points.score[run] - _smooth(joint, run, points.x[run])
        # How far the run has departed by then is a Brownian motion that is seen through noise.
        time, at, departed = clock(x), points.time[run], np.empty((len(rest), len(x)))
        for drift in np.unique(joint.drift):
            rows = joint.drift == drift
            scale = (float(drift) * float(joint.outlier_scale[run])) ** 2
            covariance = scale * np.minimum(at[:, None], at) + np.diag(points.variance[run])
            towards = scale * np.minimum(time[:, None], at)
            weight = np.linalg.solve(covariance, towards.T)
            remaining = np.maximum(scale * time - (towards * weight.T).sum(axis=1), 0.0)
            departed[rows] = rest[rows] @ weight + self._noise[rows][:, None] * np.sqrt(remaining)
        return np.asarray(_smooth(joint, run, x) + departed)


def _smooth(joint: JointDraws, run: int, x: Vector) -> Vector:
    """Return draws × computes of what a run would score if it departed from its sigmoid as all do."""
    local, start = joint.local[:, joint.runs.of[run], None, :], joint.start[:, joint.runs.of[run], None]
    return np.asarray(sigmoid(local, start, np.log(np.maximum(x, EARLIEST)))[0] + joint.common_departure(x))


def _places(reached: float) -> Vector:
    """Return computes in targets from 0 to 1, denser where the run was seen."""
    origin = min(ORIGIN, reached / 4)
    along = np.expm1(np.linspace(0.0, np.log1p(1 / origin), PLACES)) * origin
    along[0], along[-1] = 0.0, 1.0
    return np.asarray(along)


def _numbers(values: Vector) -> tuple[float, ...]:
    return tuple(map(float, values))


@dataclass(frozen=True, slots=True)
class PredictedScore:
    """An expected score with its interval of 90 %."""

    score: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: Vector) -> "PredictedScore":
        """Return what draws of a score say."""
        low, high = np.quantile(draws, INTERVAL_ENDS)
        return cls(float(draws.mean()), float(low), float(high))


def promised_at(band: Sequence[Sequence[float]], share: float) -> PredictedScore:
    """Return what was promised for a share of the run, between the parts that are kept."""
    shares, *scores = zip(*band, strict=True)
    score, low, high = (float(np.interp(share, shares, score)) for score in scores)
    return PredictedScore(score, low, high)


LEAST_CHANCE = 0.01  # of winning that much, below which it is not (bench/results/finals.md)
EARLIEST_SHARE = 0.25  # of the run: before, a forecast says little
LEAST_RISE = 2.0  # standard deviations of a score that it must have risen by: a flat curve may rise late


@dataclass(frozen=True, slots=True)
class RemainingGain:
    """What is left of a run: how much of it, what it is expected to bring, and how likely that is to be worth it."""

    share: float  # of the x axis
    expected: float  # of score
    chance: float  # of more than the margin within which scores are equivalent
    end: PredictedScore

    @property
    def won(self) -> bool:
        """Whether nothing is left that is worth going on for."""
        return self.chance < LEAST_CHANCE


def remaining_gain(joint: JointDraws, run: TrialView, end_gpu_hours: float) -> RemainingGain | None:
    """Forecast the rest of a run that was fitted; None before it can tell: too early, or not risen yet."""
    reached = run.scores[-1].gpu_hours
    trained = sum(score.gpu_hours > 0 for score in run.scores)
    if trained < 2 or not EARLIEST_SHARE * end_gpu_hours <= reached < end_gpu_hours:
        return None
    x = np.array([[reached, end_gpu_hours]]) / joint.target
    now, end = np.clip(joint.observed(*joint.rows_of([run]), x)[:, 0, :], 0.0, 1.0).T
    scores = [score.score for score in run.scores]
    if now.mean() - min(scores[: max(1, len(scores) // 4)]) < LEAST_RISE * np.sqrt(joint.noise_of_a_score):
        return None
    chance = float((end > now.mean() + EQUIVALENCE_MARGIN).mean())
    expected = max(0.0, float((end - now).mean()))
    return RemainingGain(1 - reached / end_gpu_hours, expected, chance, PredictedScore.of(end))


def remaining_gain_alone(curve: Curve, end_x: float) -> RemainingGain | None:
    """Forecast the rest of a curve beside which nothing is known; None also of scores that are no pass rates."""
    if not curve.bounded or not (curve.x > 0).any():
        return None
    errors = [None] * curve.x.size if curve.standard_errors is None else curve.standard_errors.tolist()
    points = zip(range(curve.x.size), curve.x.tolist(), curve.y.tolist(), errors, strict=True)
    run = TrialView(
        trial=0,
        name=curve.name,
        rollouts_per_prompt=1,
        prompts_per_batch=1,
        seed=0,
        state=TrialState.PAUSED,
        step=curve.x.size,
        pilot_steps=curve.x.size,
        segment_steps=1,
        most_steps=curve.x.size,
        gpu_hours_per_step=end_x / curve.x.size,
        start_up_gpu_hours=0.0,
        gpu_hours_spent=float(curve.x[-1]),
        scores=tuple(ScorePoint(*point) for point in points),
    )
    return remaining_gain(joint_of(View({0: run}, 0.0, end_x, 0, 0), DRAWS), run, end_x)
