"""The compute-optimal number of rollouts per prompt, n*(C), from runs of different n (IsoCompute, arXiv 2603.12151)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families.one_curve import sigmoid
from planner.prior.studies import OptimalGroupLaw

_GRID = 200  # values of compute along the frontier
_SMOOTHING = 0.05  # running average of the labels, as a part of the grid; the study does not state its window
_STEEPEST = 50.0  # where the study pins k: the law is then a step
_FEWEST_RECORDS = 4


@dataclass(frozen=True, eq=False)
class Frontier:
    """The best score at each compute and the n of the run that reaches it; `notes` name what was left out."""

    compute: Vector
    score: Vector
    group: NDArray[np.int64]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptimalGroupFit:
    """The law of n*(C) fitted to a frontier; `rss` is that of log2 n*."""

    law: OptimalGroupLaw
    rss: float

    @property
    def parameters(self) -> dict[str, float]:
        """L, k, c0 and b of log2 n* = L/(1 + exp(−k(log10 C − c0))) + b."""
        return {"L": self.law.rise, "k": self.law.steepness, "c0": self.law.midpoint, "b": self.law.floor}

    def predict(self, x: ArrayLike) -> Vector:
        """Return n* at so much compute, which must lie above 0."""
        values = np.asarray(x, dtype=float)
        return np.array([self.law(value) for value in values.ravel()]).reshape(values.shape)


@dataclass(frozen=True)
class OptimalGroup:
    """The family: a sigmoid in log10 C through the running average of the frontier's log2 n."""

    smoothing: float = _SMOOTHING
    name: ClassVar[str] = "optimal group"

    def fit(self, frontier: Frontier, /) -> OptimalGroupFit:
        """Fit the law; floor and ceiling stay within an octave of the n that were tried."""
        if np.unique(frontier.group).size < 2:
            raise InputError(
                f"n = {frontier.group[0]} is on the frontier at every compute: the law of n* needs a change of "
                "the best n; add runs of other n, or of more compute"
            )
        log_group = np.log2(frontier.group)
        labels = _running_average(log_group, max(1, round(self.smoothing * log_group.size)))
        limits = float(log_group.min()) - 1, float(log_group.max()) + 1
        problem = sigmoid(np.log(frontier.compute), labels, limits, _STEEPEST / math.log(10))
        found = problem.fit()
        steepness, midpoint, floor, ceiling = found.tolist()
        law = OptimalGroupLaw(
            rise=ceiling - floor,
            steepness=math.exp(steepness) * math.log(10),
            midpoint=midpoint / math.log(10),
            floor=floor,
        )
        rss = float(((problem.values(found[None], problem.inputs) - labels) ** 2).sum())
        return OptimalGroupFit(law, rss)


def fit_optimal_group(frontier: Frontier) -> OptimalGroupLaw:
    """Return the law of n*(C) that fits a frontier best."""
    return OptimalGroup().fit(frontier).law


def frontier(curves: Mapping[int, Curve | Sequence[Curve]], bins: float = 0.01) -> Frontier:
    """Return the upper envelope of one monotone sigmoid per n through the record-breaking points of its runs.

    The steps are the study's. An n counts from its first record on, and past its last point it keeps its score: a
    run can be stopped, but what it would have done later was not seen.
    """
    if not (math.isfinite(bins) and bins > 0):
        raise InputError(f"score bins of width {bins}: give a width above 0, such as 0.01")
    pooled, notes = {}, []
    for group, runs in sorted(curves.items()):
        if group < 1:
            raise InputError(f"{group} rollouts per prompt: give at least 1")
        records = _pooled_records([runs] if isinstance(runs, Curve) else runs, bins)
        if np.unique(records.x).size < _FEWEST_RECORDS or np.ptp(records.y) == 0:
            notes.append(f"n = {group} left out: {records.x.size} record-breaking points, {_FEWEST_RECORDS} needed")
        else:
            pooled[group] = records
    if len(pooled) < 2:
        raise InputError(
            f"{len(pooled)} values of n can be fitted, the frontier needs 2: " + "; ".join(notes or ["none given"])
        )
    first, last = min(curve.x[0] for curve in pooled.values()), max(curve.x[-1] for curve in pooled.values())
    compute = np.geomspace(first, last, _GRID)
    scores = np.stack([_reachable(records, compute) for records in pooled.values()])
    best = scores.argmax(axis=0)
    groups = np.array(list(pooled), dtype=np.int64)
    return Frontier(compute, scores.max(axis=0), groups[best], tuple(notes))


def _pooled_records(runs: Sequence[Curve], bins: float) -> Curve:
    """Return the first point of each run in every score bin that is higher than all its bins before."""
    xs, ys = [np.empty(0)], [np.empty(0)]
    for run in runs:
        x, y = run.x[run.x > 0], run.y[run.x > 0]
        # The tiny part keeps a score that is a multiple of the width out of the bin below.
        entered = np.maximum.accumulate(np.floor(y / bins + 1e-9))
        record = np.diff(entered, prepend=-np.inf) > 0
        xs.append(x[record])
        ys.append(y[record])
    bounded = all(run.bounded for run in runs)
    return Curve.of("records", np.concatenate(xs), np.concatenate(ys), bounded=bounded)


def _reachable(records: Curve, compute: Vector) -> Vector:
    """Return the fitted score at each compute, −∞ before the first record and constant after the last."""
    problem = sigmoid(np.log(records.x), records.y, (0.0, 1.0))
    scores = problem.values(problem.fit()[None], np.log(np.minimum(compute, records.x[-1])))[0]
    # The grid's end points are computed, so the first one may miss the first record by a rounding error.
    return np.where(compute >= records.x[0] * (1 - 1e-9), scores, -np.inf)


def _running_average(values: Vector, window: int) -> Vector:
    """Return centred means, over what there is of the window at the ends."""
    kernel = np.ones(window)
    return np.convolve(values, kernel, mode="same") / np.convolve(np.ones_like(values), kernel, mode="same")
