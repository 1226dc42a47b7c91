"""Sorting and filtering of rows, as flags ask for it: `--sort score --reverse --top 5 --where n=16,recipe=dapo`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from budgets.errors import InputError, UnknownNameError
from planner.view import Axes, Configuration
from rlplan.wording.typed_numbers import names_in

Row = TypeVar("Row")
SHORT = {"n": "rollouts_per_prompt", "b": "prompts_per_batch", "lr": "learning_rate"}


@dataclass(frozen=True, slots=True)
class SortKey(Generic[Row]):
    """What rows are sorted by; rows without a value come last, whatever the direction."""

    of: Callable[[Row], Any]
    largest_first: bool = False


def chosen_names(given: str | None, kind: str, known: Iterable[str]) -> frozenset[str]:
    """Read names with commas between them; each must be known, and none stands for all."""
    names = names_in(given or "")
    allowed = list(known)
    by_folded = {name.casefold(): name for name in allowed}
    for name in names:
        if name.casefold() not in by_folded:
            raise UnknownNameError(kind, name, allowed)
    return frozenset(by_folded[name.casefold()] for name in names)


def ordered(
    rows: Sequence[Row], by: str | None, keys: Mapping[str, SortKey[Row]], *, reverse: bool = False
) -> list[Row]:
    """Sort rows by the key of that name, in its natural direction unless reversed; None leaves them as they are."""
    if by is None:
        return list(reversed(rows)) if reverse else list(rows)
    if by.casefold() not in keys:
        raise UnknownNameError("sort key", by, keys)
    key = keys[by.casefold()]
    with_value = [row for row in rows if key.of(row) is not None]
    without = [row for row in rows if key.of(row) is None]
    return [*sorted(with_value, key=key.of, reverse=key.largest_first != reverse), *without]


def conditions(given: str | None) -> dict[str, frozenset[str]]:
    """Read `name=value` pairs with commas between them; a name that stands twice may have either value."""
    found: dict[str, frozenset[str]] = {}
    for part in names_in(given or ""):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not (name and equals and value):
            raise InputError(f"--where '{part}' is no condition: write NAME=VALUE, such as n=16,recipe=dapo")
        column = SHORT.get(name.casefold(), name.casefold())
        found[column] = found.get(column, frozenset()) | {value}
    return found


def fulfilling(
    rows: Sequence[Row], wanted: Mapping[str, frozenset[str]], columns: Mapping[str, Callable[[Row], Any]]
) -> list[Row]:
    """Return the rows that have one of the wanted values in each of the columns named."""
    for name in wanted:
        if name not in columns:
            raise UnknownNameError("column in --where", name, {*columns, *SHORT})
    return [
        row
        for row in rows
        if all(any(_same(columns[name](row), text) for text in values) for name, values in wanted.items())
    ]


def axis_columns(all_axes: Iterable[Axes]) -> list[str]:
    """Return a column for each axis that occurs; an axis may be called like a column, such as the learning rate's."""
    return list(dict.fromkeys(name for axes in all_axes for name in axis_cells(axes)))


def axis_cells(axes: Axes) -> dict[str, str | float]:
    """Return the values of axes by their columns."""
    return {f"axis_{name}": value for name, value in axes}


def chosen_data(configuration: Configuration) -> dict[str, Any]:
    """Return a configuration with a key for n, B and each further axis."""
    n, B, axes = configuration
    return {"rollouts_per_prompt": n, "prompts_per_batch": B, **dict(axes)}


def _same(value: Any, text: str) -> bool:
    if isinstance(value, int | float):
        try:
            return float(text.replace("_", "")) == value
        except ValueError:
            return False
    return value is not None and str(value).casefold() == text.casefold()
