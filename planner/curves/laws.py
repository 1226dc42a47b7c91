"""The laws that a table can be fitted with: one curve, or those of several n."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families import Law
from planner.curves.families.across_runs import draw_group_law
from planner.curves.families.draws import CannotTellError, LawDraws, interval
from planner.curves.families.one_curve import draw_power_law, draw_sigmoid
from planner.curves.reading.table import Table, listing
from planner.metrics import Interval

MOST_POINTS = 60  # of a curve; more are averaged in groups, as a law has but a few parameters
GROUP_COLUMNS = ("rollouts_per_prompt", "n", "group_size", "num_generations")  # by which the law of n finds its own


@dataclass(frozen=True, eq=False)
class LawFit:
    """What a table says of a law: `draws` of it, or None where there is too little to draw from, and the `doubts`.

    `points` are what was fitted, by the series that the law predicts.
    """

    law: Law
    name: str
    points: Mapping[str, Curve]
    draws: LawDraws | None
    doubts: tuple[str, ...]
    notes: tuple[str, ...]

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

    def at(self, series: str, x: Vector, level: float) -> Vector:
        """Return the middle and the ends of the interval of the law's values of a series at some x: (3, x)."""
        if self.draws is None:
            return np.full((3, len(x)), np.nan)
        return interval(self.draws.series[series](x), self.draws.levels, level)


def fit_curve_law(law: Law, curve: Curve) -> LawFit:
    """Fit the sigmoid or the power law to one curve."""
    draw = draw_sigmoid if law is Law.SIGMOID else draw_power_law
    return _fit(law, curve.name, {"": curve}, lambda: draw(averaged(curve)), curve.notes)


def fit_group_law(name: str, curves: Mapping[float, Sequence[Curve]]) -> LawFit:
    """Fit the law of the best n to curves of several rollouts per prompt."""
    if broken := [value for value in curves if not float(value).is_integer()]:
        raise InputError(f"{broken[0]:g} rollouts per prompt in '{name}': give whole numbers")
    notes = tuple(dict.fromkeys(note for runs in curves.values() for run in runs for note in run.notes))
    thin = {int(value): [averaged(run) for run in runs] for value, runs in sorted(curves.items())}
    points = {"n*": Curve.joined([run for runs in curves.values() for run in runs])}
    return _fit(Law.GROUP_SIZE, name, points, lambda: draw_group_law(thin), notes)


def _fit(
    law: Law, name: str, points: Mapping[str, Curve], draw: Callable[[], LawDraws], notes: tuple[str, ...]
) -> LawFit:
    try:
        draws = draw()
    except CannotTellError as reason:
        return LawFit(law, name, points, None, (str(reason),), notes)
    return LawFit(law, name, points, draws, draws.doubts, (*notes, *draws.notes))


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
