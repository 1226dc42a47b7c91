"""Where to start fitting: the early regime of a run often follows another law than the rest.

The published rule skips the first 1,500 GPU-hours, about one pass over the prompts (arXiv 2510.13786, A.7). Without
such a figure, the cut is chosen that best predicts points which were held out.
"""

from dataclasses import replace

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.posterior import predict_quantiles

PUBLISHED_CUT_GPU_HOURS = 1500.0
CANDIDATES = (0.0, 0.02, 0.05, 0.10, 0.20)  # of the last x
TRAINED_ON = 0.6  # of the x range; the later points judge
FEWEST_POINTS = 12  # below this no cut can be told from another
WORTHWHILE = 0.9  # a cut must lower the score by a tenth,
NOTICEABLE = 0.006  # and by as much of the spread of the scores: a tenth of a score that is small already is luck
LEVELS = (np.arange(100) + 0.5) / 100  # the middles of equal parts, by which the mean pinball loss is half the CRPS


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
            over = predict_quantiles([cut_before(early, fraction * last)], [middle], LEVELS)[0] - truth
            scores[fraction] = 2 * float(np.mean(np.maximum((1 - LEVELS) * over, -LEVELS * over)))
    best = min(scores, key=lambda fraction: scores[fraction], default=0.0)
    whole = scores.get(0.0, np.inf)
    needed = min(WORTHWHILE * whole, whole - NOTICEABLE * float(np.ptp(curve.y)))
    return best * last if scores and scores[best] < needed else 0.0
