"""Tables that live in memory, of plain Python or of pandas or polars, as the readers of files return them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Vector
from planner.curves.files.table import Table

NAME = "frame"  # how errors and results call what has no file
ARRAYS = "arrays"
# A mapping of columns, a DataFrame of pandas or polars, or a list of dicts; a path is a file.
Tabular: TypeAlias = Any


def is_path(data: object) -> bool:
    """Whether what was given is the place of a file."""
    return isinstance(data, str | Path)


def _is_frame(data: object) -> bool:
    """Whether its columns can be read as those of a DataFrame of pandas or polars."""
    return hasattr(data, "columns") and hasattr(data, "to_dict")


def table_of(data: Tabular) -> Table:
    """Return a table's columns; InputError when it is none."""
    numbers: dict[str, Vector] = {}
    text: dict[str, list[str]] = {}
    columns = _columns(data)
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in list(lengths.items())[:6])
        raise InputError(f"columns differ in length ({listed}): give each as many values")
    if not columns or not any(lengths.values()):
        raise InputError(f"the {type(data).__name__} holds no rows: give one with a row for each point")
    for name, values in columns.items():
        try:
            numbers[name] = np.array([np.nan if value is None else float(value) for value in values])
        except (TypeError, ValueError):
            text[name] = ["" if value is None else str(value) for value in values]
    return Table(NAME, numbers, text)


def _columns(data: Tabular) -> dict[str, list[Any]]:
    """Return the values of each column, None for what is missing."""
    if _is_frame(data):
        data = {name: data[name] for name in data.columns}
    if isinstance(data, Mapping):
        return {str(name): _whole(name, values) for name, values in data.items()}
    if isinstance(data, list):
        names = dict.fromkeys(name for row in data for name in row)
        return {str(name): [_missing(row.get(name)) for row in data] for name in names}
    raise InputError(
        f"{type(data).__name__} is no table that can be read: give a dict of columns, a list of dicts, a DataFrame, or "
        "a path"
    )


def _whole(name: object, values: object) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"column '{name}' is a {type(values).__name__}: give a list of its values")
    return [_missing(value) for value in values]


def _missing(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value


def arrays_of(data: object) -> tuple[Vector, Vector] | None:
    """Return x and scores of a pair of arrays or of an array with two columns; None when it is neither."""
    if isinstance(data, tuple) and len(data) == 2 and not any(is_path(values) for values in data):
        x, scores = (_vector(values, name) for values, name in zip(data, ("x", "scores"), strict=True))
    elif isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == 2:
        x, scores = _vector(data[:, 0], "x"), _vector(data[:, 1], "scores")
    else:
        return None
    if x.size != scores.size:
        raise InputError(f"there are {x.size} x values and {scores.size} scores: give as many of both")
    return x, scores


def _vector(values: Any, name: str) -> Vector:
    try:
        vector = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        vector = np.empty((0, 0))
    if vector.ndim != 1:
        raise InputError(f"{name} are no plain list of numbers: give (x, scores), one number for each point in both")
    return vector


def table_in_memory(data: Tabular) -> Table | None:
    """Return what is given as a table or as a pair of arrays; None of files."""
    rows = isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data)
    if rows or isinstance(data, Mapping) or _is_frame(data):
        return table_of(data)
    pair = arrays_of(data)
    return None if pair is None else Table(ARRAYS, {"x": pair[0], "score": pair[1]})


def paths_of(data: Tabular) -> list[Path]:
    """Return the files that are given, one or several."""
    files = [data] if is_path(data) else list(data) if isinstance(data, Sequence) else []
    if not files or not all(is_path(file) for file in files):
        raise InputError(
            f"{type(data).__name__} is nothing that can be fitted: give a path or several, a dict of columns, a "
            "list of dicts, a DataFrame, or a pair of arrays (x, scores)"
        )
    return list(map(Path, files))
