"""Checked access to a table of runs, a row a point: complaints name the file, the run, the column and the line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from budgets.errors import InputError
from planner.curves.reading import Table, read_table
from planner.curves.reading.table import Flags, Rows, Vector, listing

NEEDED: Final = ("run", "rollouts_per_prompt", "prompts_per_batch", "seed", "gpu_hours", "score")
FEWEST: Final = {"rollouts_per_prompt": 1, "prompts_per_batch": 1, "seed": 0, "step": 0, "rollouts": 0, "tokens": 0}


def read_runs(path: Path, optional: str) -> Table:
    """Return the table of a file that has the columns of a table of runs; the error says what it may have as well."""
    (table, *_) = read_table(path)
    require_columns(table, path, optional)
    return table


def require_columns(table: Table, path: Path, optional: str) -> None:
    """Refuse a table that lacks a column that each table of runs has."""
    missing = [name for name in NEEDED if name not in table.columns and name not in table.text]
    if missing:
        there = listing([*table.columns, *table.text])
        raise InputError(
            f"'{path}' has no column {' or '.join(missing)}: a table of runs has {', '.join(NEEDED)}, and may have "
            f"{optional}. It has {there}"
        )


def runs_of(table: Table) -> Iterator[tuple[str, Rows]]:
    """Yield each run with its rows, in the order in which the runs begin."""
    named = table.text.get("run") or [f"{value:g}" for value in table.columns["run"]]
    _, first, runs = np.unique(np.asarray(named), return_index=True, return_inverse=True)
    for run in np.argsort(first):
        yield named[first[run]], np.flatnonzero(runs == run)


def numbers(table: Table, name: str, rows: Rows, place: str) -> Vector:
    """Return a column that must hold a number in each of the rows."""
    if name not in table.columns:
        raise InputError(f"{place}: {name} holds text: it must hold numbers")
    values = table.columns[name][rows]
    require(np.isfinite(values), rows, f"{place}: {name} is missing or not a number")
    return values


def whole(table: Table, name: str, rows: Rows, place: str) -> Vector:
    """Return a column that must hold whole numbers, not below the least that its meaning allows."""
    values = numbers(table, name, rows, place)
    least = FEWEST[name]
    require((values >= least) & (values == np.rint(values)), rows, f"{place}: {name} must be whole and ≥ {least}")
    return values


def where_there(table: Table, name: str, rows: Rows, place: str) -> list[float | None]:
    """Return a column that may be missing altogether or here and there, but holds no text."""
    if name in table.text and any(table.text[name]):
        raise InputError(f"{place}: {name} holds text: it must hold numbers, or nothing where there is none")
    values = table.columns.get(name)
    return [None if values is None or np.isnan(values[row]) else float(values[row]) for row in rows]


def constant(values: Vector, name: str, rows: Rows, place: str) -> int:
    """Return the whole number that a run has in all of its rows."""
    require(values == values[0], rows, f"{place}: {name} changes within the run; name each run differently")
    return int(values[0])


def require(holds: Flags, rows: Rows, complaint: str) -> None:
    """Refuse the first row for which something does not hold; rows are counted as an editor shows them."""
    if not holds.all():
        raise InputError(f"{complaint} (line {line(rows[int(np.argmin(holds))])})")


def line(row: int) -> int:
    """Return the line of a file, as an editor counts, in which a row stands below the header."""
    return int(row) + 2
