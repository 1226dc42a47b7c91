"""Whether a run has anything left to win, by the one belief of its curve and of those that are known beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.curves.curve import Curve, Vector
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_ENDS
from planner.pooling.draws import JointDraws
from planner.pooling.pool import DRAWS, joint_of
from planner.trials import TrialState
from planner.view import ScorePoint, TrialView, View


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
    score, low, high = (float(np.interp(share, shares, each)) for each in scores)
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
