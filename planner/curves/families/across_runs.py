"""The law across runs: the best number of rollouts per prompt at each compute.

log2 n*(C) = L/(1 + exp(−k·(log10 C − c0))) + b (IsoCompute, arXiv 2603.12151).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families.draws import CannotTellError, LawDraws
from planner.curves.families.one_curve import draw_sigmoid

_GRID = 200  # values of compute along the frontier
_SMOOTHING = 0.05  # running average of the labels, as a part of the grid; the study does not state its window
_STEEPNESS = (1.0, 50.0, 24)  # from and to what, where the study pins k, and how many; the last is a step
_MIDPOINTS = 80
_BEYOND = 1.0  # octaves that floor and ceiling may lie beyond the n that were tried
_DRAWS = 400
_MOST_WITHOUT_CHANGE = 0.1


def draw_group_law(curves: Mapping[int, Sequence[Curve]]) -> LawDraws:
    """Return what L, k, c0 and b may be: each draw takes a sigmoid for every n, and the best n at every compute.

    An n counts from its first point on, and past its last one it keeps its score: a run can be stopped, but what it
    would have done later was not seen.
    """
    if wrong := [group for group in curves if group < 1]:
        raise InputError(f"{wrong[0]} rollouts per prompt: give at least 1")
    joined = {group: Curve.joined([run.where(run.x > 0) for run in runs]) for group, runs in sorted(curves.items())}
    ends = [float(curve.x[end]) for curve in joined.values() if curve.x.size for end in (0, -1)]
    compute = np.geomspace(min(ends, default=1.0), max(ends, default=1.0), _GRID)
    scores, notes = {}, []
    for group, curve in joined.items():
        try:
            scores[group] = _reachable(curve, compute, group)
        except CannotTellError as reason:
            notes.append(f"n = {group} left out: {reason}")
    if len(scores) < 2:
        raise CannotTellError(f"{len(scores)} values of n can be fitted, the best n needs 2: {'; '.join(notes)}")
    logs = np.log2(np.array(list(scores), dtype=float))
    labels = logs[np.stack(list(scores.values())).argmax(axis=0)]
    return _group_law(np.log10(compute), labels, logs, tuple(notes))


def _reachable(curve: Curve, compute: Vector, group: int) -> Vector:
    """Return draws of the score at each compute, −∞ before the first point and constant after the last."""
    draws = draw_sigmoid(curve).series[""](np.minimum(compute, curve.x[-1]))
    # Draws of different n must not go together, as those of one random sequence may.
    chosen = np.random.default_rng(group).choice(len(draws), _DRAWS)
    # The grid's end points are computed, so the first one may miss the first point by a rounding error.
    return np.where(compute >= curve.x[0] * (1 - 1e-9), draws[chosen], -np.inf)


def _group_law(log_compute: Vector, labels: Vector, logs: Vector, notes: tuple[str, ...]) -> LawDraws:
    """Fit the law to each draw's labels, the best cell of a grid of (k, c0)."""
    kernel = np.ones(round(_SMOOTHING * _GRID))
    there = np.convolve(np.ones(_GRID), kernel, mode="same")
    smooth = np.stack([np.convolve(each, kernel, mode="same") / there for each in labels])
    cells = np.meshgrid(np.geomspace(*_STEEPNESS), np.linspace(log_compute[0], log_compute[-1], _MIDPOINTS))
    steepness, midpoints = (axis.ravel() for axis in cells)
    gained = expit(steepness[:, None] * (log_compute - midpoints[:, None]))
    basis = np.stack([1 - gained, gained], axis=-1)  # of the floor, and of the ceiling
    gram = np.einsum("gxc,gxd->gcd", basis, basis)
    along = np.einsum("gxc,dx->gcd", basis, smooth, optimize=True)
    levels = np.clip(np.linalg.pinv(gram, hermitian=True) @ along, logs.min() - _BEYOND, logs.max() + _BEYOND)
    squares = np.einsum("gcd,gce,ged->gd", levels, gram, levels, optimize=True) - 2 * (levels * along).sum(axis=1)
    best = squares.argmin(axis=0)
    floor, ceiling = levels[best, :, np.arange(len(labels))].T

    def best_log(log_x: Vector) -> Vector:
        share = expit(steepness[best, None] * (log_x - midpoints[best, None]))
        return np.asarray(floor[:, None] * (1 - share) + ceiling[:, None] * share)

    law = {"L": ceiling - floor, "k": steepness[best], "c0": midpoints[best], "b": floor}
    noise = float(np.sqrt(np.mean((smooth - best_log(log_compute)) ** 2)))
    doubts = _group_doubts(labels, law["c0"], log_compute)
    return LawDraws(law, {"n*": lambda x: np.exp2(best_log(np.log10(x)))}, noise, doubts, notes)


def _group_doubts(labels: Vector, midpoint: Vector, log_compute: Vector) -> tuple[str, ...]:
    constant = np.ptp(labels, axis=1) == 0
    if constant.mean() > _MOST_WITHOUT_CHANGE:
        values, counts = np.unique(labels[constant], return_counts=True)
        likeliest = 2 ** values[counts.argmax()]
        return (
            f"the best n may be the same at every compute (P = {constant.mean():.2f}, then likeliest "
            f"n = {likeliest:.0f}); add runs of other n, or of more compute",
        )
    low, high = np.quantile(midpoint[~constant], (0.05, 0.95))
    if high - low > (log_compute[-1] - log_compute[0]) / 2:
        return (f"where the best n changes may be anywhere from 10^{low:.2f} to 10^{high:.2f}",)
    return ()
