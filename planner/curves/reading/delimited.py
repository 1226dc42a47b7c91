"""Delimited text: CSV with commas, semicolons or tabs, and the export of a Weights & Biases panel."""

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TextIO

import numpy as np

from budgets.errors import InputError
from planner.curves.reading.names import RUNS, columns_like
from planner.curves.reading.table import Table, Vector

_CHUNK = 50_000
_WORDS = dict.fromkeys(("", "na", "n/a", "nan", "null", "none", "-", "#n/a"), math.nan) | {"true": 1.0, "false": 0.0}
# A column is text when more than this share of its filled cells in the first chunk are no numbers.
_TEXT_SHARE = 0.1
_EXTREMES = ("__MIN", "__MAX")
_BETWEEN = " - "
_PANEL_AXES = ("relative time", "wall time")


@dataclass
class _Column:
    """One column while it is read: numbers, unless its first rows say that it holds text."""

    name: str
    chunks: list[Vector] = field(default_factory=list)
    text: list[str] | None = None
    odd: int = 0

    def add(self, cells: tuple[str, ...], decimal_comma: bool) -> None:
        if self.text is not None:
            self.text.extend(cell.strip() for cell in cells)
            return
        try:
            values = np.array(list(map(float, cells)))
            odd = 0
        except ValueError:
            values, odd = _numbers(cells, decimal_comma)
        filled = odd + int((~np.isnan(values)).sum())
        share = 0.0 if self.name.casefold() in RUNS else _TEXT_SHARE
        if not self.chunks and odd > share * filled:
            self.text = [cell.strip() for cell in cells]
        else:
            self.odd += odd
            self.chunks.append(values)


def read_delimited(stream: TextIO, name: str) -> list[Table]:
    """Read delimited text into one table, or into one a run when it is a Weights & Biases export."""
    first = next(line for line in stream if line.strip())
    delimiter = max(",;\t", key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))
    lines = csv.reader(chain([first], stream), delimiter=delimiter)
    try:
        header = [cell.strip() for cell in next(lines)]
        names, notes = _distinct_names(header, name)
        columns = [_Column(column) for column in names]
        ragged, rows = _fill(columns, lines, decimal_comma=delimiter == ";")
    except csv.Error as error:
        raise InputError(f"'{name}' is not a table: line {lines.line_num}: {error}") from None
    if not rows:
        raise InputError(f"'{name}' holds a header but no rows")
    if ragged:
        notes.append(f"{ragged} rows have more or fewer cells than the header")
    notes += [
        f"{column.odd} cells of '{column.name}' are no numbers: read as missing" for column in columns if column.odd
    ]
    table = Table(
        name,
        {column.name: np.concatenate(column.chunks) for column in columns if column.text is None},
        {column.name: column.text for column in columns if column.text is not None},
        notes=tuple(notes),
    )
    return _exported_runs(table) or [table]


def _fill(columns: list[_Column], lines: Iterator[list[str]], *, decimal_comma: bool) -> tuple[int, int]:
    """Read all rows chunk by chunk; return how many were ragged, and how many there are."""
    width, ragged, rows = len(columns), 0, 0
    while chunk := list(islice(lines, _CHUNK)):
        if not all(len(row) == width for row in chunk):
            chunk = [row for row in chunk if row]
            ragged += sum(len(row) != width for row in chunk)
            chunk = [(row + [""] * width)[:width] for row in chunk]
        rows += len(chunk)
        for column, cells in zip(columns, zip(*chunk, strict=True), strict=False):
            column.add(cells, decimal_comma)
    return ragged, rows


def _numbers(cells: Iterable[str], decimal_comma: bool) -> tuple[Vector, int]:
    """Read cells one by one; return NaN for those that are no numbers, and how many of these were not blank."""
    values = [_number(cell, decimal_comma) for cell in cells]
    return np.array(values, dtype=float), values.count(None)


def _number(cell: str, decimal_comma: bool) -> float | None:
    try:
        return float(cell)
    except ValueError:
        bare = cell.strip().casefold()
    if bare in _WORDS or not decimal_comma or "," not in bare:
        return _WORDS.get(bare)
    return _number(bare.replace(",", "."), False)


def _distinct_names(header: list[str], name: str) -> tuple[list[str], list[str]]:
    """Name what the header leaves blank or repeats; a header of numbers is none."""
    if np.isfinite(_numbers(header, False)[0]).all():
        raise InputError(f"the first line of '{name}' holds numbers: it must name the columns (step,compute,metric)")
    names: list[str] = []
    notes = []
    for position, cell in enumerate(header, start=1):
        given = cell or f"(column {position})"
        if given in names:
            notes.append(f"column '{given}' occurs twice: the second is '{given} (column {position})'")
            given = f"{given} (column {position})"
        names.append(given)
    return names, notes


def _exported_runs(table: Table) -> list[Table]:
    """Make a table a run of a panel's export: columns 'RUN - METRIC' after an axis, without '__MIN' and '__MAX'."""
    first = next(iter(table.columns), "").casefold()
    if not (first.startswith(_PANEL_AXES) or columns_like("*step", [first])):
        return []
    scores = [name for name in table.columns if _BETWEEN in name and not name.endswith(_EXTREMES)]
    shared = {name: values for name, values in table.columns.items() if _BETWEEN not in name}
    runs: dict[str, dict[str, Vector]] = {}
    for column in scores:
        run, _, metric = column.rpartition(_BETWEEN)
        runs.setdefault(run, {})[metric] = table.columns[column]
    tables = []
    for run, metrics in runs.items():
        there = np.any([~np.isnan(values) for values in metrics.values()], axis=0)
        columns = {name: values[there] for name, values in {**shared, **metrics}.items()}
        tables.append(Table(run, columns, notes=table.notes))
    return tables
