"""How well the beginning of a run tells its end: the methods of bench/extrapolation.py on the runs of AllocBench."""

from collections.abc import Sequence
from dataclasses import dataclass

import baselines
import numpy as np
from extrapolation import Case, Scores, ours, score, windows

from .table import Run

PARTS = (0.1, 0.25, 0.5)


METHODS: dict[str, baselines.Method] = {
    "rlplan": ours,
    "scipy sigmoid": baselines.each(baselines.sigmoid),
    "power law": baselines.each(baselines.power_law),
    "last value": baselines.each(baselines.last_value),
    "recent mean": baselines.each(baselines.recent_mean),
}


@dataclass(frozen=True, eq=False)
class Early:
    """Predictions of the mean score over the last tenth from the first part of each run."""

    part: float
    cases: list[Case]
    scores: dict[str, Scores]  # by method
    order: dict[str, float]  # Spearman's correlation of predicted and true ends over runs, by method


def early(runs: Sequence[Run], part: float) -> Early:
    """Predict the end of every run from its first part, by every method."""
    cases, _ = windows([(run.name, run.curve()) for run in runs], part)
    scores = {name: score(method, cases) for name, method in METHODS.items()}
    return Early(part, cases, scores, {name: _order(each.point, each.truth) for name, each in scores.items()})


def _order(predicted: np.ndarray, truth: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(predicted, truth).statistic)
