"""Rows of JSON: JSONL of any trainer, verl's {"step", "data"} rows, and the log of `trainer_state.json`."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, TextIO

import numpy as np

from budgets.errors import InputError
from planner.curves.reading.table import Table

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
    notes = [f"{len(broken)} broken lines left out (the first is line {broken[0]})"] if broken else []
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
    kinds: list[frozenset[str]] = []
    cells: dict[str, dict[int, Any]] = {}
    for number, row in enumerate(rows):
        flat = _flat(row)
        kinds.append(frozenset(flat))
        for key, value in flat.items():
            cells.setdefault(key, {})[number] = value
    columns, text = {}, {}
    for key, values in cells.items():
        numbers = {row: _number(value) for row, value in values.items() if isinstance(value, int | float)}
        words = {row: value for row, value in values.items() if isinstance(value, str)}
        if numbers and len(numbers) >= len(words):
            columns[key] = np.full(len(kinds), np.nan)
            columns[key][list(numbers)] = list(numbers.values())
        elif words:
            text[key] = [words.get(row, "") for row in range(len(kinds))]
    most = Counter(kinds).most_common(1)[0][0]
    return Table(name, columns, text, np.array([kind == most for kind in kinds]), tuple(notes))


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Join nested keys with '/'; verl's `data` is no part of a name."""
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


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
