"""Sorting and filtering of rows, as flags ask for it: `--sort score --reverse --top 5 --where n=16,recipe=dapo`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from budgets.errors import InputError, UnknownNameError
from planner.view import Axes, Configuration
from rlplan.wording.numbers import names_in, some_of, whole_number

Row = TypeVar("Row")
NAMED = 4  # allocations, in a refusal
SHORT = {"n": "rollouts_per_prompt", "b": "prompts_per_batch", "lr": "learning_rate"}


class Allocated(Protocol):
    """Anything with an n and a B."""

    @property
    def rollouts_per_prompt(self) -> int:
        """Rollouts of each prompt."""

    @property
    def prompts_per_batch(self) -> int:
        """Prompts of an update."""


class Ranked(Allocated, Protocol):
    """A row of a ranking."""

    @property
    def rank(self) -> int:
        """Its number."""


Candidate = TypeVar("Candidate", bound=Ranked)


@dataclass(frozen=True, slots=True)
class SortKey(Generic[Row]):
    """What rows are sorted by; rows without a value come last, whatever the direction."""

    of: Callable[[Row], Any]
    largest_first: bool = False


def chosen_names(text: str | None, kind: str, known: Iterable[str]) -> frozenset[str]:
    """Read names with commas between them; each must be known, and none stands for all."""
    names = names_in(text or "")
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


def conditions(text: str | None) -> dict[str, frozenset[str]]:
    """Read `name=value` pairs with commas between them; a name that stands twice may have either value."""
    texts: dict[str, frozenset[str]] = {}
    for part in names_in(text or ""):
        name, equals, value = (side.strip() for side in part.partition("="))
        if not (name and equals and value):
            raise InputError(f"--where '{part}' is no condition: write NAME=VALUE, such as n=16,recipe=dapo")
        column = SHORT.get(name.casefold(), name.casefold())
        texts[column] = texts.get(column, frozenset()) | {value}
    return texts


def fulfilling(
    rows: Sequence[Row], texts: Mapping[str, frozenset[str]], columns: Mapping[str, Callable[[Row], Any]]
) -> list[Row]:
    """Return the rows that have one of the wanted values in each of the columns named."""
    for name in texts:
        if name not in columns:
            raise UnknownNameError("column in --where", name, {*columns, *SHORT})
    return [
        row
        for row in rows
        if all(any(_same(columns[name](row), text) for text in values) for name, values in texts.items())
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


def sizes_in(allocation: str | None) -> tuple[int, int] | None:
    """Return the n and B of an allocation as it is typed."""
    if allocation is None:
        return None
    parts = dict(part.split("=", 1) for part in allocation.replace(" ", "").split(",") if "=" in part)
    if set(parts) != {"n", "B"}:
        raise InputError(f"--allocation {allocation}: give the rollouts per prompt and the prompts, as n=64,B=16")
    return whole_number(parts["n"], "--allocation n"), whole_number(parts["B"], "--allocation B")


def row_with(rows: Sequence[Candidate], row: int | None, sizes: tuple[int, int] | None, of: str) -> Candidate:
    """Return the first row with a rank and with an n and B, of those that are named; InputError where none has both."""
    ranked = [choice for choice in rows if row in (None, choice.rank)]
    if not ranked:
        raise InputError(f"{{row}}: {of} has rows 1 to {len(rows)}; `rlplan rank {of}` shows them", row=row)
    alike = [choice for choice in ranked if sizes in (None, (choice.rollouts_per_prompt, choice.prompts_per_batch))]
    if not alike:
        raise no_such_allocation(sizes or (0, 0), ranked, of)
    return alike[0]


def no_such_allocation(sizes: tuple[int, int], rows: Sequence[Allocated], of: str) -> InputError:
    """Name the rows that are nearest to an n and B that none of them has."""

    def distance(row: tuple[int, int]) -> float:
        return sum(abs(math.log(theirs / max(1, ours))) for theirs, ours in zip(row, sizes, strict=True))

    there = sorted({(row.rollouts_per_prompt, row.prompts_per_batch) for row in rows}, key=distance)
    nearest = some_of([f"n={n},B={B}" for n, B in there], NAMED)
    return InputError(
        f"{{allocation}}: {of} has no such row; nearest are {nearest}: `rlplan rank {of}` lists them",
        allocation=f"n={sizes[0]},B={sizes[1]}",
    )


def _same(value: Any, text: str) -> bool:
    if isinstance(value, int | float):
        try:
            return float(text.replace("_", "")) == value
        except ValueError:
            return False
    return value is not None and str(value).casefold() == text.casefold()
