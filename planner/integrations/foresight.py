"""What the curves of some runs say of each other at one compute: distributions, and who is the best.

P(i is best) = Σ_x P(max = x) · P(i is the one | max = x), on whatever scale the scores have: each run's distribution
is kept on a grid of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from planner.curves.curve import Curve, Vector
from planner.curves.posterior import CHUNK, posterior_of
from planner.curves.preparation import LEAST_NOISE, Prepared, prepare
from planner.curves.prior import Prior
from planner.metrics import INTERVAL_ENDS

COARSE, KNOTS = 64, 128  # of one run's distribution, before and after it is known where they belong
BINS = 256  # in which the best is looked for
TAIL = 1e-5
LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class ScoreForecasts:
    """The mean scores of runs at one compute, a row per run: median, 90 % interval, expectation, and P(best)."""

    median: Vector
    low: Vector
    high: Vector
    mean: Vector
    probability_best: Vector


class Distribution(NamedTuple):
    """P(score ≤ value) at ascending values, 0 before the first and 1 beyond the last; median, ends and expectation."""

    value: Vector
    below: Vector
    summary: Vector


class IndependentForecasts:
    """Each run is foreseen from its own points; a curve that was seen before costs nothing.

    On a scale without bounds what a run may still gain is thought of in the widest spread that a run has shown, lest
    one that has not begun to rise is taken for one that cannot.
    """

    def __init__(self) -> None:
        self._prior = Prior()
        self._known: dict[tuple[object, ...], Distribution] = {}
        self._least_scale = 0.0

    def forecast(self, curves: Sequence[Curve], target: float) -> ScoreForecasts:
        """Carry curves, higher scores being better, to one compute."""
        unbounded = [curve for curve in curves if not curve.bounded]
        self._least_scale = common_scale(prepare(unbounded)) if unbounded else 0.0
        scales = [0.0 if curve.bounded else self._least_scale for curve in curves]
        keys = [(each.x.tobytes(), each.y.tobytes(), target, scale) for each, scale in zip(curves, scales, strict=True)]
        new = [row for row, key in enumerate(keys) if key not in self._known]
        for start in range(0, len(new), CHUNK):
            rows = new[start : start + CHUNK]
            found = self._distributions([curves[row] for row in rows], target)
            self._known.update((keys[row], each) for row, each in zip(rows, found, strict=True))
        self._known = {key: self._known[key] for key in keys}
        found = [self._known[key] for key in keys]
        median, low, high, mean = np.stack([each.summary for each in found], axis=1)
        return ScoreForecasts(median, low, high, mean, probability_best(found))

    def _distributions(self, curves: Sequence[Curve], target: float) -> list[Distribution]:
        prepared = at_least_on(prepare(curves), self._least_scale)
        posterior = posterior_of(prepared, self._prior)
        mixtures = posterior.predict(np.full(len(curves), target))
        ends = [mixtures.quantile(level)[:, None] for level in (TAIL, 1 - TAIL)]
        width = np.maximum(ends[1] - ends[0], 1e-9 * np.maximum(prepared.scale[:, None], LEAST))

        def below(value: Vector) -> Vector:
            each = ndtr((value[:, :, None] - mixtures.mean[:, None, :]) / mixtures.sd[:, None, :])
            inside = (each @ mixtures.weight[:, :, None])[:, :, 0]
            return np.where(value >= mixtures.high[:, None], 1.0, np.where(value < mixtures.low[:, None], 0.0, inside))

        coarse = ends[1] - width * np.linspace(1, 0, COARSE)
        at_coarse = below(coarse)
        value = np.stack([_spread(*each, KNOTS) for each in zip(coarse, at_coarse, strict=True)])
        summary = [*(mixtures.quantile(level) for level in (0.5, *INTERVAL_ENDS)), mixtures.average()]
        rising = np.maximum.accumulate(below(value), axis=1)
        return [Distribution(*each) for each in zip(value, rising, np.stack(summary, axis=1), strict=True)]


def common_scale(prepared: Prepared) -> float:
    """Return the widest spread of the curves, rounded lest one more point calls for every curve to be fitted anew.

    The widest is what there is to gain as far as is known; where a run began far below the others, more is kept open.
    """
    return float(2.0 ** np.round(np.log2(np.max(prepared.scale))))


def at_least_on(prepared: Prepared, least: float) -> Prepared:
    """Return curves without bounds on a scale of at least so much; their noise keeps its size, or its least share."""
    scale = np.where(prepared.bounded, prepared.scale, np.maximum(prepared.scale, least))
    factor = prepared.scale / scale
    noise = np.maximum(prepared.noise_sd * factor, LEAST_NOISE)
    return replace(
        prepared,
        scale=scale,
        score=prepared.score * factor[:, None],
        variance=prepared.variance * (noise / prepared.noise_sd)[:, None] ** 2,
        noise_sd=noise,
    )


def probability_best(distributions: Sequence[Distribution]) -> Vector:
    """Return each one's probability of the highest value; those within one bin share it by their claims to it."""
    first, last = (max(float(each.value[end]) for each in distributions) for end in (0, -1))
    value = np.linspace(first, last, BINS)
    value = _spread(value, np.exp(np.log(np.maximum(_at(distributions, value), LEAST)).sum(axis=0)), BINS)
    upper = _at(distributions, value)
    best = np.diff(np.exp(np.log(np.maximum(upper, LEAST)).sum(axis=0)), prepend=0.0)
    mass = np.diff(upper, axis=1, prepend=0.0)
    claim = mass / np.maximum(upper - mass / 2, LEAST)
    return np.asarray((claim * best / np.maximum(claim.sum(axis=0), LEAST)).sum(axis=1))


def _at(distributions: Sequence[Distribution], value: Vector) -> Vector:
    return np.stack([np.interp(value, each.value, each.below, left=0.0, right=1.0) for each in distributions])


def _spread(value: Vector, below: Vector, size: int) -> Vector:
    """Return as many values, half of them evenly over the range and half where the probability lies."""
    along = (value - value[0]) / max(value[-1] - value[0], LEAST)
    return np.asarray(np.interp(np.linspace(0, 1, size), (along + below / max(below[-1], LEAST)) / 2, value))
