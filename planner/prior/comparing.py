"""What draws let one say of two runs: what they have in common cancels, so that differences are surer than scores."""

import math
from functools import lru_cache

import numpy as np

from planner.metrics import SEED_SD
from planner.prior.draws import Weights
from planner.prior.studies import Values, ceiling_logit

BEATEN = 0.05  # chance below which a pilot would hardly find a run ahead of another
LEAST_CHANCE_AHEAD = 0.25  # chance of being ahead of the first from which a run is called level with it


def chances_ahead(scores: Values, other: Values, weights: Weights, noise: float) -> Weights:
    """Return the probability of each run, a column each, to do better than another; `noise` is that of two runs."""
    apart = (scores - other[:, np.newaxis]) / noise
    # The normal distribution function to 3e-4 (Page 1977); SciPy's takes longer to import than a plan to make.
    ahead = 0.5 + 0.5 * np.tanh(0.7978846 * apart * (1 + 0.044715 * apart**2))
    found: Weights = weights @ ahead
    return found


def differences(scores: Values, other: Values, weights: Weights, noise: float) -> tuple[Weights, Weights]:
    """Return by how much each run is expected to be ahead of another, and the standard deviation of that."""
    apart = scores - other[:, np.newaxis]
    means: Weights = weights @ apart
    sds: Weights = np.sqrt(weights @ (apart - means) ** 2 + noise**2)
    return means, sds


def interval(scores: Values, weights: Weights) -> tuple[float, float]:
    """Return the 5 % and 95 % quantiles of a run's scores, and no less than what holds their mean."""
    order, mean = np.argsort(scores), float(weights @ scores)
    low, high = np.searchsorted(np.cumsum(weights[order]), (0.05, 0.95))
    return min(mean, float(scores[order[low]])), max(mean, float(scores[order[high]]))


def noise_between(base: float) -> float:
    """Return by how much two runs of the same cell differ at the end, as a standard deviation, at a base pass rate."""
    return math.sqrt(2) * _end_of_a_run(base)[1]


@lru_cache(maxsize=64)
def _end_of_a_run(base: float) -> tuple[float, float]:
    """Return what a run gains that comes to its ceiling, and how far seeds set it apart there."""
    gain = (1 - base) / (1 + math.exp(-ceiling_logit(base)))
    return gain, SEED_SD * math.sqrt((base + gain) * (1 - base - gain))
