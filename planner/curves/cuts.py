"""Where to start fitting: the early regime of a run often follows another law than the rest.

The published rule skips the first 1,500 GPU-hours, about one pass over the prompts (arXiv 2510.13786, A.7). Without
such a figure, the cut is chosen that best predicts points which were held out.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.posterior import predict_quantiles

PUBLISHED_CUT_GPU_HOURS = 1500.0
CANDIDATES = (0.0, 0.02, 0.05, 0.10, 0.20)  # of the last x
TRAINED_ON = 0.6  # of the x range; the later points judge
FEWEST_POINTS = 12  # below this no cut can be told from another
WORTHWHILE = 0.9  # a cut must lower the score by a tenth,
NOTICEABLE = 0.006  # and by as much of the spread of the scores: a tenth of a score that is small already is luck

LEVELS: Vector = (np.arange(100) + 0.5) / 100
"""The levels at which a predictive distribution is told: the middles of 100 equal parts."""


def cut_before(curve: Curve, x: float) -> Curve:
    """Drop the points before an x, except the one before training, which R0 is measured by."""
    kept = (curve.x >= x) | (curve.x == 0)
    if not np.any(curve.x[kept] > 0):
        raise InputError(
            f"cutting curve '{curve.name}' before {x:g} leaves no point of {curve.x.size}; the last lies at "
            f"{curve.x.max(initial=0.0):g}"
        )
    dropped = int((~kept).sum())
    note = (f"{dropped} points before x = {x:g} left out",) if dropped else ()
    return replace(curve.where(kept), notes=(*curve.notes, *note))


def best_cut(curve: Curve) -> float:
    """Return the x whose earlier points are best left out: that predicts the later part of the curve best, or 0."""
    if int((curve.x > 0).sum()) < FEWEST_POINTS:
        return 0.0
    last = float(curve.x[-1])
    early, later = curve.until(TRAINED_ON * last), curve.x > TRAINED_ON * last
    middle, truth = float(curve.x[later].mean()), float(curve.y[later].mean())
    scores: dict[float, float] = {}
    for fraction in CANDIDATES:
        window = early.x[(early.x >= fraction * last) & (early.x > 0)]
        if window.size >= FEWEST_POINTS // 2:
            quantiles = predict_quantiles([cut_before(early, fraction * last)], [middle], LEVELS)
            scores[fraction] = float(crps_of_quantiles(quantiles, np.array([truth]))[0])
    best = min(scores, key=lambda fraction: scores[fraction], default=0.0)
    whole = scores.get(0.0, np.inf)
    needed = min(WORTHWHILE * whole, whole - NOTICEABLE * float(np.ptp(curve.y)))
    return best * last if scores and scores[best] < needed else 0.0


def crps_of_quantiles(quantiles: ArrayLike, truth: ArrayLike, levels: ArrayLike = LEVELS) -> Vector:
    """Return 2 × the mean pinball loss over the levels, last axis (Gneiting and Ranjan 2011, eq. 17).

    The levels must be the middles of equal parts of (0, 1): then the mean is the midpoint rule of the integral.
    """
    q, y, p = (np.asarray(values, dtype=float) for values in (quantiles, truth, levels))
    if q.shape != (*y.shape, p.size):
        raise InputError(f"quantiles of shape {q.shape}: {p.size} levels of {y.shape} truths need {(*y.shape, p.size)}")
    below = q - y[..., None]
    return np.asarray(2 * np.mean(np.where(below >= 0, 1 - p, -p) * below, axis=-1))
