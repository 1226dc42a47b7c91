"""verl's lines: `step:12 - k:v - …` on the console, {"step", "data"} in the file of its file logger."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress

from planner.logs.lines import Said, Values, number, pairs, plain

MARK = re.compile(r"step:\d+ - |Initial validation metrics: \{|\"data\": ?\{")
_STEP = re.compile(r"(?:^|[^\w])step:(\d+) - ")
_BETWEEN = re.compile(r" - (?=\S)")
_INITIAL = "Initial validation metrics: {"
_OLD_VALIDATION = "test_score/"  # printed without the 'val/' under which it is logged


def values_of(line: str) -> Said | None:
    """Return the step and the numbers of a line of the console or of the file logger; None for any other line."""
    text = plain(line)
    if text.startswith("{"):
        return _of_row(text)
    if _INITIAL in text:
        found = pairs(text.partition(_INITIAL)[2])
        return 0, {f"val/{name}" if name.startswith(_OLD_VALIDATION) else name: v for name, v in found.items()}
    step = _STEP.search(text)
    if step is None:
        return None
    values: Values = {}
    for piece in _BETWEEN.split(text[step.end() :]):
        name, colon, said = piece.rpartition(":")
        value = number(said) if colon else None
        if value is not None and name:
            values[name] = value
    return int(step[1]), values


def _of_row(text: str) -> Said | None:
    with suppress(ValueError, RecursionError):
        row = json.loads(text)
        if isinstance(row, dict) and isinstance(row.get("data"), Mapping) and isinstance(row.get("step"), int):
            return row["step"], {name: float(v) for name, v in row["data"].items() if isinstance(v, int | float)}
    return None
