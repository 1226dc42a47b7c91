"""Formats: delimited text and the export of a Weights & Biases panel, rows of JSON, and TensorBoard's event files.

Rows of JSON are JSONL of any trainer, verl's {"step", "data"} rows, and the log of `trainer_state.json`. Event files
are read with TensorBoard's own accumulator; TensorFlow is not needed.
"""

import csv
import json
import math
import warnings
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Vector
from planner.curves.files.names import RUNS, columns_like
from planner.curves.files.table import Restart, Table, restart_notes, splice
from planner.logs.consoles import Printed

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
    lines = csv.reader([])
    try:
        delimiter = max(",;\t", key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))
        lines = csv.reader(chain([first], stream), delimiter=delimiter)
        header = [cell.strip() for cell in next(lines)]
        names, notes = _distinct_names(header, name)
        columns = [_Column(column) for column in names]
        width, ragged, rows = len(columns), 0, 0
        while chunk := list(islice(lines, _CHUNK)):
            if not all(len(row) == width for row in chunk):
                chunk = [row for row in chunk if row]
                ragged += sum(len(row) != width for row in chunk)
                chunk = [(row + [""] * width)[:width] for row in chunk]
            rows += len(chunk)
            for column, cells in zip(columns, zip(*chunk, strict=True), strict=False):
                column.add(cells, delimiter == ";")  # a semicolon leaves the comma to decimals
    except csv.Error as error:
        raise InputError(f"'{stream.name}' is not a table: line {max(1, lines.line_num)}: {error}") from None
    if not rows:
        raise InputError(f"'{stream.name}' holds a header but no rows")
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
        label = cell or f"(column {position})"
        if label in names:
            notes.append(f"column '{label}' occurs twice: the second is '{label} (column {position})'")
            label = f"{label} (column {position})"
        names.append(label)
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


# A log that is being written, or whose writer was killed, has a broken line; more than this share is another format.
_BROKEN_SHARE = 0.1


def read_lines(stream: TextIO, name: str) -> Table:
    """Read one JSON object a line; a few broken lines are left out and counted."""
    rows: list[dict[str, Any]] = []
    broken: list[int] = []
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        row = parsed(line)
        if isinstance(row, dict):
            rows.append(row)
        else:
            broken.append(number)
    if (broken and len(broken) > max(1, _BROKEN_SHARE * len(rows))) or not rows:
        raise InputError(
            f'\'{name}\' is not JSONL: line {broken[0]} is no JSON object like {{"step": 1, "reward": 0.5}}'
        )
    lines = "line" if len(broken) == 1 else "lines"
    notes = [f"{len(broken)} broken {lines} left out (the first is line {broken[0]})"] if broken else []
    return table_of(rows, name, notes)


def parsed(text: str) -> Any:
    """Parse JSON, NaN and Infinity included; None for what is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_document(document: Any, name: str) -> Table:
    """Read a whole JSON document: a trainer's state with its `log_history`, or a list of rows."""
    log = document.get("log_history") if isinstance(document, dict) else document
    if not isinstance(log, list) or not all(isinstance(row, dict) for row in log):
        raise InputError(f"'{name}' is JSON, but neither a trainer_state.json with a log_history nor a list of rows")
    if not log:
        raise InputError(f"'{name}' holds no rows yet: its log is empty")
    return table_of(log, name, [])


def table_of(rows: Iterable[dict[str, Any]], name: str, notes: list[str]) -> Table:
    """Turn rows with differing keys into columns; the rows of the most frequent set of keys set the pace."""
    kinds, kind_of = dict[frozenset[str], int](), array("q")
    numbers: dict[str, tuple[array[int], array[float]]] = {}  # of each column the rows and their numbers
    words: dict[str, dict[int, str]] = {}
    for place, row in enumerate(rows):
        flat = _flat(row)
        kind_of.append(kinds.setdefault(frozenset(flat), len(kinds)))
        for key, value in flat.items():
            if isinstance(value, int | float):
                column = numbers.get(key) or numbers.setdefault(key, (array("q"), array("d")))
                column[0].append(place)
                column[1].append(_as_float(value))
            elif isinstance(value, str):
                words.setdefault(key, {})[place] = value
    columns, text = {}, {}
    for key in dict.fromkeys((*numbers, *words)):
        places, values = numbers.pop(key, ((), ()))
        if places and len(places) >= len(words.get(key, ())):
            columns[key] = np.full(len(kind_of), np.nan)
            columns[key][np.asarray(places)] = values
        else:
            text[key] = [words[key].get(row, "") for row in range(len(kind_of))]
    most = Counter(kind_of).most_common(1)[0][0]
    return Table(name, columns, text, np.asarray(kind_of) == most, tuple(notes))


def table_of_printed(printed: Printed, name: str) -> Table:
    """Turn what a trainer printed into columns, a kind of rows at a time: such a log may have millions of numbers."""
    rows = printed.rows
    kind_of, begins, numbers = (np.asarray(array) for array in (rows.kind_of, rows.begins, rows.numbers))
    columns: dict[str, Vector] = {}
    for names, kind in rows.kinds.items():
        of_kind = np.flatnonzero(kind_of == kind)
        for place, key in enumerate(names):
            column = columns.setdefault(key, np.full(len(kind_of), np.nan))
            column[of_kind] = numbers[begins[of_kind] + place]
    usual = kind_of == np.bincount(kind_of).argmax()
    return Table(name, columns, pace=usual, notes=printed.notes, trainer=printed.trainer)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Join nested keys with '/'; verl's `data` is no part of a name."""
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    flat: dict[str, Any] = {}
    pending = [("", row)]
    while pending:
        prefix, level = pending.pop()
        for key, value in level.items():
            if isinstance(value, dict):
                pending.append(("" if not prefix and key == "data" and "step" in level else f"{prefix}{key}/", value))
            else:
                flat.setdefault(prefix + key, value)
    return flat


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


_OURS = ("step", "seconds")  # columns beside one a tag


def read_events(path: Path, name: str) -> Table:
    """Read a file of events, or all those in a folder, into the columns step, seconds and one a tag.

    Seconds leave out the pause before a restart. Restarts are spliced here, where the order of the events is known.
    Events of one step share a row; what a tag reports again at the same step goes into a further row.
    """
    scalars = _scalars(path)
    if not scalars:
        raise InputError(
            f"'{name}' holds no scalars: is this the folder to which the trainer writes its TensorBoard log?"
        )
    tags = dict.fromkeys(tag for tag, _, _ in scalars)
    events = sorted(scalars, key=lambda scalar: scalar[1].wall_time)
    tag, step = np.array([event[0] for event in events]), np.array([float(event[1].step) for event in events])
    valid = np.ones(step.size, dtype=bool)
    restarted: list[Restart] = []
    busiest = Counter(scalar[0] for scalar in scalars).most_common(1)[0][0]
    for series in tags:
        good, restarted_rows = splice(step, np.flatnonzero(tag == busiest), np.flatnonzero(tag == series))
        valid &= good
        restarted = max(restarted, restarted_rows, key=len)
    time = np.array([event.wall_time for _, event, _ in events])
    spent = np.diff(time, prepend=time[0])
    spent[[series.first for series in restarted]] = 0.0
    seconds = np.cumsum(spent)
    rows: dict[tuple[float, int], dict[str, float]] = {}
    again: Counter[tuple[str, float]] = Counter()
    for place in np.flatnonzero(valid).tolist():
        label, event, value = events[place]
        row = rows.setdefault((event.step, again[label, event.step]), {"seconds": seconds[place]})
        row[f"{label} (tag)" if label in _OURS else label] = value
        again[label, event.step] += 1
    columns = {"step": np.array([float(at) for at, _ in sorted(rows)])}
    for label in ("seconds", *(f"{tag} (tag)" if tag in _OURS else tag for tag in tags)):
        columns[label] = np.array([rows[key].get(label, np.nan) for key in sorted(rows)])
    return Table(name, columns, notes=restart_notes(restarted, "step", int((~valid).sum())))


def _scalars(path: Path) -> list[tuple[str, Any, float]]:
    """Return every scalar with its tag and its event, of a tag in the order of the files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    scalars: list[tuple[str, Any, float]] = []
    with warnings.catch_warnings():
        # The accumulator leaves its files open until it is collected.
        warnings.simplefilter("ignore", ResourceWarning)
        log = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False)
        log.Reload()
        for tag in log.Tags()["scalars"]:
            scalars += [(tag, event, event.value) for event in log.Scalars(tag)]
        for tag in log.Tags()["tensors"]:
            for event in log.Tensors(tag):
                values = make_ndarray(event.tensor_proto)
                if values.size == 1 and np.issubdtype(values.dtype, np.number):
                    scalars.append((tag, event, float(values.reshape(()))))
        del log
    return scalars
