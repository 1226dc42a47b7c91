"""The laws that a table can be fitted with: which columns each is about, and what the table says of it."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families import Law
from planner.curves.families.across_runs import draw_group_law, draw_model_sizes, draw_value_based
from planner.curves.families.draws import CannotTellError, LawDraws, interval, size_name
from planner.curves.families.one_curve import draw_power_law, draw_sigmoid
from planner.curves.reading.table import Table, listing
from planner.metrics import Interval

MOST_POINTS = 60  # of a curve; more are averaged in groups, as a law has but a few parameters
_SUFFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}

# The columns that a law is about: what each holds, and the names by which it is found.
_PARAMETERS = ("the model's number of parameters", ("parameters", "params", "num_parameters", "model_size"))
_GROUP = ("rollouts per prompt", ("rollouts_per_prompt", "n", "group_size", "num_generations"))
_UPDATES = ("updates per environment step", ("utd", "updates_per_step", "replay_ratio"))
_STEPS = ("environment steps to the threshold", ("env_steps", "environment_steps", "data"))
LAW_COLUMNS = {
    Law.MODEL_SIZE: (_PARAMETERS,),
    Law.GROUP_SIZE: (_GROUP,),
    Law.VALUE_BASED: (_UPDATES, _PARAMETERS, _STEPS),
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
    draw = draw_sigmoid if law is Law.SIGMOID else draw_power_law
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
    columns = numbers_for(table, Law.VALUE_BASED)
    rows = np.column_stack(list(columns.values()))
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


def numbers_for(table: Table, law: Law) -> dict[str, Vector]:
    """Return the columns that a law is about, by name; InputError with what the law needs and what there is.

    Sizes may be written as 7B or 0.5b.
    """
    there, found = {name.casefold(): name for name in [*table.columns, *table.text]}, {}
    for what, names in LAW_COLUMNS[law]:
        column = next((there[name] for name in names if name in there), None)
        if column is None:
            needed = " and ".join(f"'{names[0]}' ({what})" for what, names in LAW_COLUMNS[law])
            others = "" if law is Law.VALUE_BASED else ", beside compute and score"
            raise InputError(
                f"--law {law} needs {needed}{others}; '{table.name}' has {listing([*table.columns, *table.text])}: "
                f"give the one that holds {what} one of the names {', '.join(names)}"
            )
        if column in table.columns:
            found[column] = table.columns[column]
        else:
            found[column] = np.array([_size(each, column, table) for each in table.text[column]])
    return found


def _size(text: str, column: str, table: Table) -> float:
    if not text.strip():
        return math.nan
    number = re.fullmatch(
        r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([kmbt]?)", re.sub("[,_]", "", text.strip().casefold())
    )
    if number is None:
        raise InputError(
            f"'{text}' in column '{column}' of '{table.name}' is no number: write it as 7000000000, 7e9 or 7B"
        )
    return float(number[1]) * _SUFFIXES[number[2]]


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
