"""The laws that a table can be fitted with: one curve, or those of several n."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families import Law
from planner.curves.families.one_curve import CannotTellError, LawDraws, draw_power_law, draw_sigmoid, interval
from planner.curves.reading.table import Table, listing
from planner.metrics import Interval

MOST_POINTS = 60  # of a curve; more are averaged in groups, as a law has but a few parameters
GROUP_COLUMNS = ("rollouts_per_prompt", "n", "group_size", "num_generations")  # by which the law of n finds its own
_GRID = 200  # values of compute along the frontier
_SMOOTHING = 0.05  # running average of the labels, as a part of the grid; the study does not state its window
_STEEPNESS = (1.0, 50.0, 24)  # from and to what, where the study pins k, and how many; the last is a step
_MIDPOINTS = 80
_BEYOND = 1.0  # octaves that floor and ceiling may lie beyond the n that were tried
_DRAWS = 400
_MOST_WITHOUT_CHANGE = 0.1


@dataclass(frozen=True, eq=False)
class LawFit:
    """What a table says of a law: `draws` of it, or None where there is too little to draw from, and the `doubts`."""

    law: Law
    name: str
    points: Curve  # that were fitted
    draws: LawDraws | None
    doubts: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def series(self) -> str:
        """What the law predicts; '' is the score."""
        return "n*" if self.law is Law.GROUP_SIZE else ""

    @property
    def identified(self) -> bool:
        """Whether the table tells what the law is."""
        return not self.doubts

    def parameters(self, level: float) -> dict[str, Interval]:
        """Return each parameter with its interval."""
        if self.draws is None:
            return {}
        levels = self.draws.levels
        return {name: Interval(*interval(each, levels, level).tolist()) for name, each in self.draws.parameters.items()}

    def at(self, x: Vector, level: float) -> Vector:
        """Return the middle and the ends of the interval of the law's values at some x: (3, x)."""
        if self.draws is None:
            return np.full((3, len(x)), np.nan)
        return interval(self.draws.values(x), self.draws.levels, level)


def fit_curve_law(law: Law, curve: Curve) -> LawFit:
    """Fit the sigmoid or the power law to one curve."""
    draw = draw_sigmoid if law is Law.SIGMOID else draw_power_law
    return _fit(law, curve, lambda: draw(averaged(curve)))


def fit_group_law(name: str, curves: Mapping[float, Sequence[Curve]]) -> LawFit:
    """Fit the law of the best n to curves of several rollouts per prompt."""
    if broken := [value for value in curves if not float(value).is_integer()]:
        raise InputError(f"{broken[0]:g} rollouts per prompt in '{name}': give whole numbers")
    every = [run for runs in curves.values() for run in runs]
    notes = tuple(dict.fromkeys(note for run in every for note in run.notes))
    thin = {int(value): [averaged(run) for run in runs] for value, runs in sorted(curves.items())}
    return _fit(Law.GROUP_SIZE, replace(Curve.joined(every), name=name, notes=notes), lambda: draw_group_law(thin))


def _fit(law: Law, points: Curve, draw: Callable[[], LawDraws]) -> LawFit:
    try:
        draws = draw()
    except CannotTellError as reason:
        return LawFit(law, points.name, points, None, (str(reason),), points.notes)
    return LawFit(law, points.name, points, draws, draws.doubts, (*points.notes, *draws.notes))


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
    draws = draw_sigmoid(curve).values(np.minimum(compute, curve.x[-1]))
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
    return LawDraws(law, lambda x: np.exp2(best_log(np.log10(x))), noise, doubts, notes)


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
    there = {name.casefold(): name for name in table.columns}
    column = next((there[name] for name in GROUP_COLUMNS if name in there), None)
    if column is None:
        raise InputError(
            f"--law {Law.GROUP_SIZE} needs '{GROUP_COLUMNS[0]}' (rollouts per prompt), beside compute and score; "
            f"'{table.name}' has {listing([*table.columns, *table.text])}: give the one that holds numbers of rollouts "
            f"per prompt one of the names {', '.join(GROUP_COLUMNS)}"
        )
    return column


def parts_by(table: Table, column: str, values: Vector | Sequence[str]) -> dict[float | str, Table]:
    """Split a table by the values of a column, which the parts leave out, as they do rows where it is missing."""
    rows: dict[float | str, list[int]] = {}
    for row, value in enumerate(values.tolist() if isinstance(values, np.ndarray) else values):
        if value != "" and not (isinstance(value, float) and math.isnan(value)):
            rows.setdefault(value, []).append(row)
    return {value: _part(table, column, chosen) for value, chosen in rows.items()}


def _part(table: Table, without: str, rows: list[int]) -> Table:
    columns = {name: values[rows] for name, values in table.columns.items() if name != without}
    text = {name: [values[row] for row in rows] for name, values in table.text.items() if name != without}
    return replace(table, columns=columns, text=text, pace=None if table.pace is None else table.pace[rows])
