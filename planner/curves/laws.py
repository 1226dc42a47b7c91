"""The laws that a table can be fitted with: which columns each is about, and what the table says of it."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families import Law
from planner.curves.families.base import CannotTellError, LawDraws, interval, size_name
from planner.curves.families.group_size import draw_group_law
from planner.curves.families.model_size import draw_model_sizes
from planner.curves.families.power import draw_power_law
from planner.curves.families.sigmoid import Sigmoid
from planner.curves.families.value_based import draw_value_based
from planner.curves.fitting import Interval
from planner.curves.reading.table import Table, listing

MOST_POINTS = 60  # of a curve; more are averaged in groups, as a law has but a few parameters
_SUFFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@dataclass(frozen=True)
class LawColumn:
    """A column that a law is about: what it holds, and the names by which it is found."""

    what: str
    names: tuple[str, ...]


PARAMETERS = LawColumn("the model's number of parameters", ("parameters", "params", "num_parameters", "model_size"))
GROUP = LawColumn("rollouts per prompt", ("rollouts_per_prompt", "n", "group_size", "num_generations"))
UPDATES = LawColumn("updates per environment step", ("utd", "updates_per_step", "replay_ratio"))
STEPS = LawColumn("environment steps to the threshold", ("env_steps", "environment_steps", "data"))
COLUMNS: Mapping[Law, tuple[LawColumn, ...]] = {
    Law.SIGMOID: (),
    Law.POWER: (),
    Law.MODEL_SIZE: (PARAMETERS,),
    Law.GROUP_SIZE: (GROUP,),
    Law.VALUE_BASED: (UPDATES, PARAMETERS, STEPS),
}


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
    draw = Sigmoid().draw if law is Law.SIGMOID else draw_power_law
    return _fit(law, curve.name, {"": curve}, lambda: draw(averaged(curve)), curve.notes)


def fit_law_over(law: Law, name: str, curves: Mapping[float, Sequence[Curve]]) -> LawFit:
    """Fit a law to curves of several model sizes, or of several rollouts per prompt."""
    notes = tuple(dict.fromkeys(note for runs in curves.values() for run in runs for note in run.notes))
    thin = {value: [averaged(run) for run in runs] for value, runs in sorted(curves.items())}
    if law is Law.MODEL_SIZE:
        points = {size_name(size): Curve.joined(runs) for size, runs in sorted(curves.items())}
        return _fit(law, name, points, lambda: draw_model_sizes(thin), notes)
    if broken := [value for value in thin if not float(value).is_integer()]:
        raise InputError(f"{broken[0]:g} rollouts per prompt in '{name}': give whole numbers")
    points = {"n*": Curve.joined([run for runs in curves.values() for run in runs])}
    return _fit(law, name, points, lambda: draw_group_law({int(value): runs for value, runs in thin.items()}), notes)


def fit_value_based(table: Table) -> LawFit:
    """Fit the law of value-based RL to rows of updates per step, parameters and environment steps."""
    names = [column_of(table, column, Law.VALUE_BASED) for column in COLUMNS[Law.VALUE_BASED]]
    columns = [numbers_in(table, name) for name in names]
    rows = np.column_stack(columns)
    whole = np.isfinite(rows).all(axis=1)
    notes = (*table.notes, *([f"{int((~whole).sum())} rows left out: a number is missing"] if not whole.all() else []))
    rows = rows[whole]
    points = {
        size_name(size): Curve.of(size_name(size), *rows[rows[:, 1] == size][:, [0, 2]].T)
        for size in np.unique(rows[:, 1])
    }
    return _fit(Law.VALUE_BASED, table.name, points, lambda: draw_value_based(rows), notes)


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


def column_of(table: Table, column: LawColumn, law: Law) -> str:
    """Return the name that a column has in a table; InputError with what the law needs and what there is."""
    names = {name.casefold(): name for name in [*table.columns, *table.text]}
    found = next((names[name] for name in column.names if name in names), None)
    if found is not None:
        return found
    needed = " and ".join(f"'{each.names[0]}' ({each.what})" for each in COLUMNS[law])
    others = "" if law is Law.VALUE_BASED else ", beside compute and score"
    raise InputError(
        f"--law {law} needs {needed}{others}; '{table.name}' has {listing([*table.columns, *table.text])}: give the "
        f"one that holds {column.what} one of the names {', '.join(column.names)}"
    )


def numbers_in(table: Table, name: str) -> Vector:
    """Return the numbers of a column; sizes may be written as 7B or 0.5b."""
    return table.columns[name] if name in table.columns else np.array([_size(t, name, table) for t in table.text[name]])


def _size(text: str, column: str, table: Table) -> float:
    if not text.strip():
        return float("nan")
    number = re.fullmatch(r"([\d.,_]+(?:e[+-]?\d+)?)\s*([kmbt]?)", text.strip().casefold())
    try:
        return float(number[1].replace(",", "").replace("_", "")) * _SUFFIXES[number[2]] if number else float("")
    except ValueError:
        raise InputError(
            f"'{text}' in column '{column}' of '{table.name}' is no number: write it as 7000000000, 7e9 or 7B"
        ) from None


def parts_by(table: Table, column: str, values: Vector | Sequence[str]) -> dict[float | str, Table]:
    """Split a table by the values of a column, which the parts leave out, as they do rows where it is missing."""
    rows: dict[float | str, list[int]] = {}
    for row, value in enumerate(values.tolist() if isinstance(values, np.ndarray) else values):
        if value != "" and not (isinstance(value, float) and math.isnan(value)):
            rows.setdefault(value, []).append(row)
    return {value: _part(table, column, np.array(chosen)) for value, chosen in rows.items()}


def _part(table: Table, without: str, rows: NDArray[np.intp]) -> Table:
    columns = {name: values[rows] for name, values in table.columns.items() if name != without}
    text = {name: [values[row] for row in rows] for name, values in table.text.items() if name != without}
    return replace(table, columns=columns, text=text, pace=None if table.pace is None else table.pace[rows])
