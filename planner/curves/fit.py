"""Fits curves: parameters with intervals, a verdict with its evidence, and predictions, many curves at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.mixtures import Mixtures
from planner.curves.posterior import Posterior, over_chunks
from planner.curves.verdicts import Verdict, judge, states
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_LEVEL, Interval


@dataclass(frozen=True)
class Prediction:
    """The mean score at one compute: the median of its distribution, a central interval, and the expectation.

    The median is the better single figure: the distribution is often skewed, and the rare late rise or collapse drags
    the expectation to where no curve ends.
    """

    x: float
    mean: float
    low: float
    high: float
    level: float
    expectation: float


@dataclass(frozen=True)
class CurveFit:
    """What the points of one curve say."""

    curve: str
    used_points: int
    verdict: Verdict
    evidence: str
    parameters: dict[str, Interval]
    noise_sd: float
    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...]


def fit_curves(
    curves: Sequence[Curve], predict_at: Sequence[Sequence[float]] | None = None, *, level: float = INTERVAL_LEVEL
) -> list[CurveFit]:
    """Fit every curve, and predict its mean score at each compute that is named for it."""
    predictions = predict_at or [()] * len(curves)
    for curve in curves:
        if not np.any(curve.x > 0):
            raise InputError(
                f"curve '{curve.name}' has no usable point at positive compute ({curve.x.size} in all): at least one "
                "finite score at x > 0 is needed"
            )

    chunks = over_chunks(
        curves, lambda rows, state: _fit_chunk(list(curves[rows]), list(predictions[rows]), state, level)
    )
    return [fit for chunk in chunks for fit in chunk]


def _fit_chunk(
    curves: list[Curve], predict_at: list[Sequence[float]], posterior: Posterior, level: float
) -> list[CurveFit]:
    last = np.exp(posterior.prepared.last_log_x)
    scale = posterior.prepared.scale
    asymptote = _intervals(posterior.asymptote(), level)
    start = _intervals(posterior.initial_score(), level)
    exponent, midpoint = _grid_intervals(posterior, level)
    now = posterior.predict(last).average()
    chance_of_more = 1 - posterior.predict(2 * last).cdf(now + EQUIVALENCE_MARGIN * scale)
    # A verdict does not depend on the level that was asked for.
    _, lower, upper = asymptote if level == INTERVAL_LEVEL else _intervals(posterior.asymptote(), INTERVAL_LEVEL)
    width = (upper - lower) / scale
    # A scale without bounds has no span of its own; twice what was seen so far stands in for it.
    span = np.where(posterior.prepared.bounded, 1.0, 2.0)
    predictions = _predictions(posterior, predict_at, level)
    fits = []
    for i, (curve, state) in enumerate(zip(curves, states(posterior.prepared), strict=True)):
        verdict, evidence = judge(state, float(chance_of_more[i]), float(width[i]), float(span[i]))
        fits.append(
            CurveFit(
                curve=curve.name,
                used_points=int(curve.x.size),
                verdict=verdict,
                evidence=evidence,
                parameters={
                    name: Interval(*parts[:, i].tolist())
                    for name, parts in (("R0", start), ("A", asymptote), ("B", exponent), ("C_mid", midpoint))
                },
                noise_sd=float(posterior.prepared.noise_sd[i] * scale[i]),
                predictions=tuple(predictions[i]),
                notes=curve.notes,
            )
        )
    return fits


def _predictions(posterior: Posterior, predict_at: list[Sequence[float]], level: float) -> list[list[Prediction]]:
    """Predict the first compute of every curve at once, then the second, and so on."""
    result: list[list[Prediction]] = [[] for _ in predict_at]
    last = np.exp(posterior.prepared.last_log_x)
    for number in range(max((len(at) for at in predict_at), default=0)):
        at = np.array(
            [places[number] if number < len(places) else x for places, x in zip(predict_at, last, strict=True)]
        )
        mixtures = posterior.predict(at)
        intervals, expectation = _intervals(mixtures, level), mixtures.average()
        for i, places in enumerate(predict_at):
            if number < len(places):
                median, low, high = intervals[:, i].tolist()
                result[i].append(Prediction(float(places[number]), median, low, high, level, float(expectation[i])))
    return result


def _intervals(mixtures: Mixtures, level: float) -> Vector:
    """Return medians, and the ends of central intervals, (3, n)."""
    median, low, high = (mixtures.quantile(q) for q in (0.5, (1 - level) / 2, (1 + level) / 2))
    # The search for a quantile ends short of it, which may turn the order where an interval has nearly no width.
    return np.stack([median, np.minimum(low, median), np.maximum(high, median)])


def _grid_intervals(posterior: Posterior, level: float) -> tuple[Vector, Vector]:
    """Return the intervals of B and C_mid from the weights of their grid."""
    weights, prior = posterior.grid_weights(), posterior.prior
    exponents = np.unique(prior.grid_exponent)
    of_exponent = np.searchsorted(exponents, prior.grid_exponent)
    by_exponent = [_cells(prior.grid_midpoint[of_exponent == index]) for index in range(len(exponents))]
    exponent = _grid_interval(_cells(np.log(exponents))[:, of_exponent], weights, level)
    midpoint = _grid_interval(np.hstack(by_exponent), weights, level)
    return np.exp(exponent), np.exp(midpoint + posterior.prepared.last_log_x)


def _cells(values: Vector) -> Vector:
    """Return the lower and upper ends of the stretches that ascending grid values stand for: halfway to the next."""
    between = (values[1:] + values[:-1]) / 2
    edges = np.concatenate([[2 * values[0] - between[0]], between, [2 * values[-1] - between[-1]]])
    return np.stack([edges[:-1], edges[1:]])


def _grid_interval(cells: Vector, weights: Vector, level: float) -> Vector:
    """Spread the weights evenly over their cells (2, grid), lest an interval within one cell has no width."""
    edges = np.unique(cells)
    below = np.clip((edges[:, None] - cells[0]) / (cells[1] - cells[0]), 0, 1)
    cumulative = weights @ below.T

    def quantile(q: float) -> Vector:
        return np.array([np.interp(q, below_edges, edges) for below_edges in cumulative])

    return np.stack([quantile(q) for q in (0.5, (1 - level) / 2, (1 + level) / 2)])


def cut_before(curve: Curve, x: float) -> Curve:
    """Drop the points before an x, except the one before training, which R0 is measured by."""
    mask = (curve.x >= x) | (curve.x == 0)
    if not np.any(curve.x[mask] > 0):
        raise InputError(
            f"cutting curve '{curve.name}' before {x:g} leaves no point of {curve.x.size}; the last lies at "
            f"{curve.x.max(initial=0.0):g}"
        )
    dropped = int((~mask).sum())
    note = (f"{dropped} points before x = {x:g} left out",) if dropped else ()
    return replace(curve.where(mask), notes=(*curve.notes, *note))
