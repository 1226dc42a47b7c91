"""The learning rate's miss: where the best rate lies from the rule's is drawn, and a run at any rate loses by the way.

Studies ran at rates near the rule's, so that what they say holds of it, and other rates stand against it: the share of
the gain that another rate keeps, of what the rule's keeps in the same draw. It is the same for all n and B, since the
rule scales with them. Early on a rate shows its speed, of which half holds at the end, and a collapse is not seen yet.
"""

import math
from functools import cache
from statistics import fmean, stdev
from typing import Final

import numpy as np

from planner.prior.draws import Weights
from planner.prior.laws import MOST_GAIN, loss
from planner.prior.studies import RATE_MISS, WIDTHS, Values

LEAST_RETENTION: Final = 0.2  # of the gain at any rate: no other is thought to gain more than five times as much


def at_rate(scores: Values, base: float, factor: float, share: float | Values = 1.0) -> Values:
    """Return scores in all draws, one a row, as they would be at so many times the rule's learning rate.

    `share` is the part of a final run after which they are, one for all or one for each column.
    """
    gains = _retained(scores - base, _retention(factor, len(scores)), share)
    return np.asarray(base + np.minimum(gains, MOST_GAIN * (1 - base)), dtype=np.float32)


def retained_gain(factor: float) -> float:
    """Return the share of its gain that a run is expected to keep at so many times the rule's learning rate."""
    return float(_retention(factor, 4096)[1].mean())


def of_its_own(scores: Values, base: float, weights: Weights, number: int, share: float | Values = 1.0) -> Values:
    """Return scores in all draws with what one of several recipes or models gains otherwise: no study tells of that.

    `share` is the part of a final run after which they are, one for all or one for each column: as with rates, of an
    early lead a half holds.
    """
    gains = scores - base
    otherwise = _retained(gains, _own(number, len(weights)), share)
    expected, own_expected = weights @ gains, weights @ otherwise
    alike = np.divide(expected, own_expected, out=np.ones_like(expected), where=own_expected != 0)  # none is ahead
    return np.asarray(base + otherwise * alike, dtype=np.float32)


def _retained(gains: Values, kept: tuple[Values, Values], share: float | Values) -> Values:
    """Return gains of which a draw keeps one part early on, and another at the end."""
    early, end = (each.reshape(len(gains), *(1,) * (gains.ndim - 1)) for each in kept)
    found: Values = gains * (early * (1 - share) + end * share)
    return found


@cache
def _own(number: int, draws: int) -> tuple[Values, Values]:
    """Return what one of several gains, of what all do, in each draw: early on, and at the end."""
    own, speed = np.random.default_rng([2, number]).standard_normal((2, draws), dtype=np.float32)
    end = 1 + WIDTHS.variant * own
    return end * np.exp(RATE_MISS.early * speed), end


@cache
def _retention(factor: float, draws: int) -> tuple[Values, Values]:
    """Return what a rate keeps of the gain that the rule's has, in each draw: early on, and at the end."""
    normals = np.random.default_rng(3).standard_normal((2, draws))
    best, speed = (normals - normals.mean(axis=1, keepdims=True)) / normals.std(axis=1, keepdims=True)
    # So many octaves above the rule's lies the best rate; at the rule's no study collapsed.
    best = np.maximum(fmean(RATE_MISS.best) + stdev(RATE_MISS.best) * best, -RATE_MISS.collapse)
    octaves = math.log2(factor)
    own, rule = (np.maximum(LEAST_RETENTION, 1 - RATE_MISS.loss * loss(at - best)) for at in (octaves, 0.0))
    early = own / rule * (np.exp(RATE_MISS.early * speed) if octaves else 1)
    return early, np.where(octaves - best > RATE_MISS.collapse, 0, own / rule)
