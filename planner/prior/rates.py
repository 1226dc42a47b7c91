"""The learning rate's miss: where the best rate lies from the rule's is drawn, and a run at any rate loses by the way.

Studies ran at rates near the rule's, so that what they say holds of it, and other rates stand against it: the share of
the gain that another rate keeps, of what the rule's keeps in the same draw. The share is the same at all lengths of a
run and for all n and B, since the rule scales with them [A].
"""

import math
from functools import cache
from statistics import fmean, stdev
from typing import Final

import numpy as np

from planner.prior.laws import MOST_GAIN, loss
from planner.prior.studies import RATE_MISS, Values

LEAST_KEPT: Final = 0.2  # of the gain at any rate: no other is thought to gain more than five times as much


def at_rate(scores: Values, base: float, factor: float) -> Values:
    """Return scores in all draws, one a row, as they would be at so many times the rule's learning rate."""
    kept = _kept(factor, len(scores)).reshape(-1, *(1,) * (scores.ndim - 1))
    return base + np.minimum((scores - base) * kept, np.float32(MOST_GAIN * (1 - base)))


@cache
def _kept(factor: float, draws: int) -> Values:
    """Return what a rate keeps of the gain that the rule's has, in each draw; nothing where runs collapse."""
    octaves, best = math.log2(factor), _best(draws)
    own, rule = (np.maximum(LEAST_KEPT, 1 - RATE_MISS.loss * loss(at - best)) for at in (octaves, 0.0))
    found: Values = np.where(octaves - best > RATE_MISS.collapse, np.float32(0), own / rule)
    return found


def _best(draws: int) -> Values:
    """Return where the best rate lies in each draw, in octaves above the rule's; at the rule's no study collapsed."""
    normals = np.random.default_rng(3).standard_normal(draws, dtype=np.float32)
    scattered = (normals - normals.mean()) / normals.std()
    best = fmean(RATE_MISS.best) + stdev(RATE_MISS.best) * scattered
    return np.asarray(np.maximum(best, -RATE_MISS.collapse), dtype=np.float32)
