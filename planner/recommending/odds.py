"""How each configuration stands at one compute: chances to be best or nearly, what it may cost, its new run's score."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from planner.pooling.draws import shares_of_best
from planner.recommending.prospect import LEVEL, Mask, Prospect, Vector
from planner.sweeping.chances import NEAR

NEARLY = 0.01  # in score; differences within NEAR are seed noise in the best study there is
NORMAL_PARTS = 16  # equally likely values that stand for a seed's normal deviation


@dataclass(frozen=True, eq=False, slots=True)
class Odds:
    """Figures of every configuration at one compute; those that cannot be run have no chance.

    `regret` is E[max] − E[score], which is what a choice is expected to fall short of the best in hindsight.
    """

    expected: Vector
    best: Vector  # P(best)
    within_nearly: Vector  # P(within 0.01 of the best)
    within_near: Vector  # P(within 0.02 of the best)
    regret: Vector


def odds(prospect: Prospect, rung: int) -> Odds:
    """Return the figures at one compute; draws that tie, such as at a score of 1, share their chance."""
    able, scores = prospect.able[rung], prospect.scores[rung]
    best = prospect.best(rung)[:, None]
    expected = prospect.expected[rung]
    return Odds(
        expected=expected,
        best=shares_of_best(np.where(able, scores, -np.inf)),
        within_nearly=_share((scores >= best - NEARLY) & able),
        within_near=_share((scores >= best - NEAR) & able),
        regret=np.maximum(0.0, best.mean() - expected),
    )


def beats(scores: Vector, one: int, other: int) -> float:
    """Return P(one configuration scores higher than another); a tie is half a win."""
    gap = scores[:, one] - scores[:, other]
    return float((gap > 0).mean() + (gap == 0).mean() / 2)


def interval(scores: Vector, seed_sd: float = 0.0, level: float = LEVEL) -> tuple[Vector, Vector]:
    """Return the central interval of each column of pass rates, for the score of a new run where seeds differ.

    The seed's normal deviation is added as equally likely parts, so that no chance is needed.
    """
    if seed_sd > 0:
        parts = ndtri((np.arange(NORMAL_PARTS) + 0.5) / NORMAL_PARTS)
        parts *= seed_sd / parts.std()
        scores = np.clip(scores[:, None, :] + parts[None, :, None], 0.0, 1.0).reshape(-1, scores.shape[1])
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.asarray(low), np.asarray(high)


def _share(mask: Mask) -> Vector:
    return np.asarray(mask.mean(axis=0))
