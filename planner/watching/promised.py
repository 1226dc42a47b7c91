"""What was promised of a run, at its end and on the way there."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.curves.curve import Vector
from planner.metrics import INTERVAL_ENDS


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
