"""What the curves of some runs say of each other at one compute: how each ends, and who is the best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.curves.curve import Curve, Vector
from planner.curves.mixtures import Mixtures
from planner.curves.posterior import CHUNK, posterior_of
from planner.curves.preparation import LEAST_NOISE, Prepared, prepare
from planner.curves.prior import Prior
from planner.metrics import INTERVAL_ENDS

DRAWS = 4_000  # of every run: a probability of 0.02, at which one of ten is stopped, is known to within 0.002


@dataclass(frozen=True, slots=True)
class ScoreForecasts:
    """The mean scores of runs at one compute, a row per run: median, 90 % interval, expectation, and P(best)."""

    median: Vector
    low: Vector
    high: Vector
    mean: Vector
    probability_best: Vector


class IndependentForecasts:
    """Each run is foreseen from its own points; a curve that was seen before is not fitted again.

    On a scale without bounds what a run may still gain is thought of in the widest spread that a run has shown, lest
    one that has not begun to rise is taken for one that cannot.
    """

    def __init__(self) -> None:
        self._prior = Prior()
        self._known: dict[tuple[object, ...], Mixtures] = {}

    def forecast(self, curves: Sequence[Curve], target: float) -> ScoreForecasts:
        """Carry curves, higher scores being better, to one compute."""
        unbounded = [curve for curve in curves if not curve.bounded]
        least = common_scale(prepare(unbounded)) if unbounded else 0.0
        scales = [0.0 if curve.bounded else least for curve in curves]
        keys = [(each.x.tobytes(), each.y.tobytes(), target, scale) for each, scale in zip(curves, scales, strict=True)]
        new = [row for row, key in enumerate(keys) if key not in self._known]
        for start in range(0, len(new), CHUNK):
            rows = new[start : start + CHUNK]
            prepared = at_least_on(prepare([curves[row] for row in rows]), least)
            found = posterior_of(prepared, self._prior).predict(np.full(len(rows), target))
            self._known.update((keys[row], found.part(slice(place, place + 1))) for place, row in enumerate(rows))
        self._known = {key: self._known[key] for key in keys}
        ends = Mixtures.joined([self._known[key] for key in keys])
        median, low, high = (ends.quantile(level) for level in (0.5, *INTERVAL_ENDS))
        return ScoreForecasts(median, low, high, ends.average(), probability_best(ends))


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


def probability_best(ends: Mixtures) -> Vector:
    """Return each one's share of the draws in which it is the highest; several that are at their bound share one."""
    drawn = ends.drawn(np.random.default_rng(0), DRAWS)
    highest = drawn == drawn.max(axis=0)
    return np.asarray((highest / highest.sum(axis=0)).mean(axis=1))
