"""Fits curves: parameters with intervals, a verdict with its evidence, and predictions, many curves at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.mixtures import Mixtures
from planner.curves.posterior import Posterior, over_chunks
from planner.curves.prior import Prior
from planner.curves.verdicts import NOTABLE, Verdict, judge, states

LEVEL = 0.90


@dataclass(frozen=True)
class Interval:
    """A median with a central interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Prediction:
    """The mean score at one compute, with a central interval."""

    x: float
    mean: float
    low: float
    high: float
    level: float


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
    curves: Sequence[Curve],
    predict_at: Sequence[Sequence[float]] | None = None,
    *,
    level: float = LEVEL,
    prior: Prior | None = None,
) -> list[CurveFit]:
    """Fit every curve, and predict its mean score at each compute that is named for it."""
    wanted = predict_at or [()] * len(curves)
    _check(curves, wanted, level)

    def fit_chunk(rows: slice, posterior: Posterior) -> list[CurveFit]:
        return _fit_chunk(list(curves[rows]), list(wanted[rows]), posterior, level)

    return [fit for chunk in over_chunks(curves, fit_chunk, prior) for fit in chunk]


def _fit_chunk(
    curves: list[Curve], wanted: list[Sequence[float]], posterior: Posterior, level: float
) -> list[CurveFit]:
    last = np.exp(posterior.prepared.last_log_x)
    scale = posterior.prepared.scale
    asymptote = _intervals(posterior.asymptote(), level)
    start = _intervals(posterior.initial_score(), level)
    exponent, midpoint = _grid_intervals(posterior, level)
    now = posterior.predict(last).average()
    chance_of_more = 1 - posterior.predict(2 * last).cdf(now + NOTABLE * scale)
    width = (asymptote[2] - asymptote[1]) / scale
    # A scale without bounds has no span of its own; twice what was seen so far stands in for it.
    span = np.where(posterior.prepared.bounded, 1.0, 2.0)
    predictions = _predictions(posterior, wanted, level)
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
                    name: Interval(*(float(part[i]) for part in parts))
                    for name, parts in (("R0", start), ("A", asymptote), ("B", exponent), ("C_mid", midpoint))
                },
                noise_sd=float(posterior.prepared.noise_sd[i] * scale[i]),
                predictions=tuple(predictions[i]),
                notes=curve.notes,
            )
        )
    return fits


def _predictions(posterior: Posterior, wanted: list[Sequence[float]], level: float) -> list[list[Prediction]]:
    """Predict the first compute of every curve at once, then the second, and so on."""
    result: list[list[Prediction]] = [[] for _ in wanted]
    last = np.exp(posterior.prepared.last_log_x)
    for number in range(max((len(at) for at in wanted), default=0)):
        at = np.array([each[number] if number < len(each) else x for each, x in zip(wanted, last, strict=True)])
        mixtures = posterior.predict(at)
        mean = mixtures.average()
        _, low, high = _intervals(mixtures, level)
        for i, each in enumerate(wanted):
            if number < len(each):
                # The tail of a skewed distribution may carry the mean past the interval's end; a point outside of its
                # own interval would only confuse.
                point = float(np.clip(mean[i], low[i], high[i]))
                result[i].append(Prediction(float(each[number]), point, float(low[i]), float(high[i]), level))
    return result


def _intervals(mixtures: Mixtures, level: float) -> tuple[Vector, Vector, Vector]:
    return mixtures.quantile(0.5), mixtures.quantile((1 - level) / 2), mixtures.quantile((1 + level) / 2)


def _grid_intervals(
    posterior: Posterior, level: float
) -> tuple[tuple[Vector, Vector, Vector], tuple[Vector, Vector, Vector]]:
    """Return the intervals of B and C_mid from the weights of their grid."""
    weights, prior = posterior.grid_weights(), posterior.prior
    exponent = _grid_interval(prior.grid_exponent, weights, level)
    midpoint = _grid_interval(prior.grid_midpoint, weights, level)
    last = posterior.prepared.last_log_x
    median, low, high = (np.exp(part + last) for part in midpoint)
    return exponent, (median, low, high)


def _grid_interval(values: Vector, weights: Vector, level: float) -> tuple[Vector, Vector, Vector]:
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[:, order], axis=1)

    def quantile(q: float) -> Vector:
        index = np.minimum((cumulative < q).sum(axis=1), len(values) - 1)
        return np.asarray(values[order][index])

    return quantile(0.5), quantile((1 - level) / 2), quantile((1 + level) / 2)


def _check(curves: Sequence[Curve], wanted: Sequence[Sequence[float]], level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"level {level}: it must lie between 0 and 1, such as 0.9")
    if len(wanted) != len(curves):
        raise InputError(f"{len(curves)} curves and predictions for {len(wanted)}: give as many")
    for curve, at in zip(curves, wanted, strict=True):
        if not np.any(curve.x > 0):
            raise InputError(
                f"curve '{curve.name}' has no usable point at positive compute ({curve.x.size} in all): at least one "
                "finite score at x > 0 is needed"
            )
        for x in at:
            if not (np.isfinite(x) and x > 0):
                raise InputError(f"curve '{curve.name}': cannot predict at x = {x}; it must be finite and positive")
