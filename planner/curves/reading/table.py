"""What every format is read into: named columns in the order of the file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isnan

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Vector

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

# An error lists this many columns at most: a trainer logs hundreds.
LISTED = 20
_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class Table:
    """One file's columns in the order of its rows; NaN where a number is missing, '' where a text is.

    `pace` marks the rows of the most frequent kind (usually one a training step), from which a restart is seen best;
    None means that all rows are of one kind.
    """

    name: str
    columns: dict[str, Vector]
    text: dict[str, list[str]] = field(default_factory=dict)
    pace: Flags | None = None
    notes: tuple[str, ...] = ()
    trainer: str | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        first = next(iter(self.columns.values()), None)
        return len(next(iter(self.text.values()), ())) if first is None else first.size


def rows_of(table: Table, names: Iterable[str]) -> Iterator[dict[str, float]]:
    """Yield the numbers that each row has in some columns."""
    columns = {name: table.columns[name] for name in names}
    for begin in range(0, table.rows, _AT_ONCE):  # a number of numpy's takes ten times as long as one of Python's
        parts = [column[begin : begin + _AT_ONCE].tolist() for column in columns.values()]
        count = min(_AT_ONCE, table.rows - begin)
        for row in zip(*parts, strict=True) if parts else [()] * count:
            yield {name: value for name, value in zip(columns, row, strict=True) if not isnan(value)}


def listing(names: Iterable[str]) -> str:
    """List names for an error, in their order, at most twenty."""
    known = list(names)
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    return ", ".join(known[:LISTED]) + more if known else "(none)"
