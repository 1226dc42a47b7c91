"""The laws of the literature that tables can be fitted with: of one curve, or across those of several n."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
from scipy.special import expit

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.files.table import Table, listing
from planner.curves.gain_curve import CannotTellError, LawDraws, draw_sigmoid, least_ends

MOST_POINTS = 60  # of a curve; more are averaged in groups, as a law has but a few parameters
GROUP_COLUMNS = ("rollouts_per_prompt", "n", "group_size", "num_generations")  # by which the law of n finds its own
GRID = 200  # values of compute along the frontier
SMOOTHING = 0.05  # running average of the labels, as a part of the grid; the study does not state its window
STEEPNESS = (1.0, 50.0, 24)  # from and to what, where the study pins k, and how many; the last is a step
MIDPOINTS = 80
BEYOND = 1.0  # octaves that floor and ceiling may lie beyond the n that were tried
DRAWS = 1_000
MOST_WITHOUT_CHANGE = 0.1


class Law(StrEnum):
    """What scores, or what is best, may follow."""

    SIGMOID = "sigmoid"
    POWER = "power"
    GROUP_SIZE = "group-size"


def draw_group_law(curves: Mapping[int, Sequence[Curve]]) -> LawDraws:
    """Return what L, k, c0 and b may be: each draw takes a sigmoid for every n, and the best n at every compute.

    An n counts from its first point on, and past its last one it keeps its score: a run can be stopped, but what it
    would have done later was not seen.
    """
    if wrong := [n for n in curves if n < 1]:
        raise InputError(f"{wrong[0]} rollouts per prompt: give at least 1")
    joined = {n: Curve.joined([run.where(run.x > 0) for run in runs]) for n, runs in sorted(curves.items())}
    ends = [float(curve.x[end]) for curve in joined.values() if curve.x.size for end in (0, -1)]
    compute = np.geomspace(min(ends, default=1.0), max(ends, default=1.0), GRID)
    scores, notes = {}, []
    for n, curve in joined.items():
        try:
            draws = draw_sigmoid(curve)
        except CannotTellError as reason:
            notes.append(f"n = {n} left out: {reason}")
            continue
        values = draws.values(np.minimum(compute, curve.x[-1]))[draws.sample(DRAWS, seed=n)]
        # The grid's end points are computed, so the first one may miss the first point by a rounding error.
        scores[n] = np.where(compute >= curve.x[0] * (1 - 1e-9), values, -np.inf)
    if len(scores) < 2:
        raise CannotTellError(f"{len(scores)} values of n can be fitted, the best n needs 2: {'; '.join(notes)}")
    logs = np.log2(np.array(list(scores), dtype=float))
    labels = logs[np.stack(list(scores.values())).argmax(axis=0)]
    return _group_law(np.log10(compute), labels, logs, tuple(notes))


def _group_law(log_compute: Vector, labels: Vector, logs: Vector, notes: tuple[str, ...]) -> LawDraws:
    """Fit the law to each draw's labels (d, x), the best cell of a grid of (k, c0)."""
    kernel = np.ones(round(SMOOTHING * GRID))
    filled = np.convolve(np.ones(GRID), kernel, mode="same")
    smooth = np.stack([np.convolve(row, kernel, mode="same") / filled for row in labels])
    cells = np.meshgrid(np.geomspace(*STEEPNESS), np.linspace(log_compute[0], log_compute[-1], MIDPOINTS))
    steepness, midpoints = (axis.ravel() for axis in cells)
    gained = expit(steepness[:, None] * (log_compute - midpoints[:, None]))
    free, gram = least_ends(gained, smooth.T)  # (g, 2, d): cells, floor and ceiling, draws
    ends = np.clip(free, logs.min() - BEYOND, logs.max() + BEYOND)
    best = np.einsum("gcd,gce,ged->gd", ends - 2 * free, gram, ends, optimize=True).argmin(axis=0)
    floor, ceiling = ends[best, :, np.arange(len(labels))].T

    def best_log(log_x: Vector) -> Vector:
        share = expit(steepness[best, None] * (log_x - midpoints[best, None]))
        return np.asarray(floor[:, None] * (1 - share) + ceiling[:, None] * share)

    law = {"L": ceiling - floor, "k": steepness[best], "c0": midpoints[best], "b": floor}
    noise = float(np.sqrt(np.mean((smooth - best_log(log_compute)) ** 2)))
    doubts = _group_doubts(labels, law["c0"], log_compute)
    return LawDraws(law, lambda x: np.exp2(best_log(np.log10(x))), noise, doubts, notes)


def _group_doubts(labels: Vector, midpoint: Vector, log_compute: Vector) -> tuple[str, ...]:
    constant = np.ptp(labels, axis=1) == 0
    if constant.mean() > MOST_WITHOUT_CHANGE:
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


def averaged(curve: Curve) -> Curve:
    """Return a curve of at most so many points, each the mean of its neighbours; those before training are one."""
    if curve.x.size <= MOST_POINTS:
        return curve
    before, trained = np.flatnonzero(curve.x == 0), np.flatnonzero(curve.x > 0)
    groups = [*([before] if before.size else []), *np.array_split(trained, min(MOST_POINTS, trained.size))]
    x, y = (np.array([float(values[rows].mean()) for rows in groups]) for values in (curve.x, curve.y))
    return replace(curve, x=x, y=y, standard_errors=None)


def group_column(table: Table) -> str:
    """Return the column of rollouts per prompt; InputError with what the law needs and what there is."""
    names = {name.casefold(): name for name in table.columns}
    column = next((names[name] for name in GROUP_COLUMNS if name in names), None)
    if column is None:
        raise InputError(
            f"--law {Law.GROUP_SIZE} needs '{GROUP_COLUMNS[0]}' (rollouts per prompt), beside compute and score; "
            f"'{table.name}' has {listing([*table.columns, *table.text])}: give the one that holds numbers of rollouts "
            f"per prompt one of the names {', '.join(GROUP_COLUMNS)}"
        )
    return column


def parts_by(table: Table, column: str) -> dict[float | str, Table]:
    """Split a table by the values of a column, which the parts leave out, as they do rows where it is missing."""
    values = table.text[column] if column in table.text else table.columns[column].tolist()
    rows: dict[float | str, list[int]] = {}
    for row, value in enumerate(values):
        if value != "" and not (isinstance(value, float) and math.isnan(value)):
            rows.setdefault(value, []).append(row)
    return {
        value: replace(
            table,
            columns={name: cells[chosen] for name, cells in table.columns.items() if name != column},
            text={name: [cells[row] for row in chosen] for name, cells in table.text.items() if name != column},
            pace=None if table.pace is None else table.pace[chosen],
        )
        for value, chosen in rows.items()
    }
