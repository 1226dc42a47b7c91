"""Several curves in one file: how they are told apart."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgets.errors import InputError
from planner.curves.curve import Vector
from planner.curves.files.names import RUNS, columns_like, resolve
from planner.curves.files.table import LISTED, Rows, Table, listing

# Columns that change when one run is launched again.
_LAUNCHES = ("attempt", "restart", "resume", "session", "job", "job_id", "slurm_job_id", "host", "hostname", "node")
_MOST_CURVES, _MOST_SETTINGS, _FEWEST_POINTS = 10_000, 50, 3
# Two curves in one file go over the same ground; a measurement that happens to take few values does not.
_SHARED_GROUND = 0.25

Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Part:
    """The rows of one curve, and what sets it apart ('' where the file holds one curve)."""

    label: str
    rows: Rows


def split(table: Table, by: str | None, scored: Rows, counter: Vector, used: set[str]) -> tuple[list[Part], list[str]]:
    """Split a table into its curves: by the columns given, or by its run column if steps repeat; say what was done.

    `by=""` says that the file is one curve. Curves that are mixed with nothing obvious to tell them apart are refused.
    """
    if by is not None:
        columns = named(table, by)
        return _parts(table, columns, scored) if columns else ([_single_curve(table)], [])
    steps = counter[scored]
    if np.all(np.diff(steps) > 0):
        return [_single_curve(table)], []
    obvious = [name for pattern in RUNS for name in columns_like(pattern, [*table.columns, *table.text])]
    runs = [name for name in dict.fromkeys(obvious) if _distinct(_codes(table, [name])[scored]) > 1]
    settings = _settings(table, scored, steps, {*used, *runs})
    for columns in [*([run] for run in runs), runs]:
        if columns and _tells_apart(_codes(table, columns)[scored], steps):
            return _parts(table, columns, scored)
    singly = [name for name in settings if _tells_apart(_codes(table, [*runs, name])[scored], steps)]
    jointly = len(settings) > 1 and _tells_apart(_codes(table, [*runs, *settings])[scored], steps)
    if singly or jointly:
        choices = [",".join([*runs, name]) for name in singly] or [",".join([*runs, *settings])]
        ways = " or ".join(f"{{by}} {choice}" for choice in choices[:LISTED])
        raise InputError(
            f"'{table.name}' seems to mix several curves: its steps repeat, and {listing(singly or settings)} change "
            f"with them. Tell them apart with {ways} ({{by}} '' if it is one curve)",
            by=None,
        )
    if runs:
        return _parts(table, runs[:1], scored)
    return [_single_curve(table)], []


def _single_curve(table: Table) -> Part:
    return Part("", np.arange(table.rows))


def named(table: Table, by: str) -> list[str]:
    """Find the columns that `by` names: one, or several with commas between them."""
    everything = {*table.columns, *table.text}
    keys = [by] if by in everything else [part.strip() for part in by.split(",") if part.strip()]
    return [resolve(part, table, "by", text=True) for part in keys]


def _codes(table: Table, columns: list[str]) -> Codes:
    """Number the distinct values of columns taken together; -1 where one of them is missing."""
    joint: Codes = np.zeros(table.rows, dtype=np.intp)
    missing = np.zeros(table.rows, dtype=bool)
    for name in columns:
        values = np.array(table.text[name]) if name in table.text else table.columns[name]
        missing |= values == "" if name in table.text else np.isnan(values)
        distinct, codes = np.unique(values, return_inverse=True)
        _, joint = np.unique(joint * distinct.size + codes, return_inverse=True)
    return np.where(missing, -1, joint)


def _distinct(codes: Codes) -> int:
    return int(np.unique(codes[codes >= 0]).size)


def _settings(table: Table, scored: Rows, steps: Vector, without: set[str]) -> list[str]:
    """Find the columns that could be a setting of a run: few values, each over several points, on common ground."""
    passed_over = without.union(*(columns_like(name, [*table.columns, *table.text]) for name in _LAUNCHES))
    settings = []
    for name in [*table.text, *table.columns]:
        if name in passed_over:
            continue
        codes = _codes(table, [name])[scored]
        count = _distinct(codes)
        if not 2 <= count <= _MOST_SETTINGS or codes.size < _FEWEST_POINTS * count or (codes < 0).any():
            continue
        _, at = np.unique(steps, return_inverse=True)
        at_step = np.unique(np.stack([at, codes]), axis=1)[0]
        # The share of the steps at which more than one value is seen.
        if name in table.text or float(np.mean(np.bincount(at_step) > 1)) >= _SHARED_GROUND:
            settings.append(name)
    return settings


def _tells_apart(codes: Codes, steps: Vector) -> bool:
    """Say whether steps ascend within each group, or, in a file without order, occur but once in each."""
    order = np.argsort(codes, kind="stable")
    grouped, ordered = codes[order], steps[order]
    same = grouped[1:] == grouped[:-1]
    if np.all(np.diff(ordered)[same] > 0):
        return True
    order = np.lexsort((steps, codes))
    repeats = (np.diff(codes[order]) == 0) & (np.diff(steps[order]) == 0)
    return not repeats.any() and np.unique(steps).size < steps.size


def _parts(table: Table, columns: list[str], scored: Rows) -> tuple[list[Part], list[str]]:
    codes, joined = _codes(table, columns), ",".join(columns)
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    groups = [rows for rows in groups if rows.size and codes[rows[0]] >= 0]
    if not groups:
        raise InputError(f"column {joined} of '{table.name}' is blank: choose another with {{by}}", by=None)
    if len(groups) > _MOST_CURVES:
        raise InputError(
            f"{{by}} would make {len(groups)} curves of '{table.name}', above {_MOST_CURVES}: "
            "name the column that tells the runs apart",
            by=joined,
        )
    groups.sort(key=lambda rows: int(rows[0]))
    blank = int((codes[scored] < 0).sum())
    notes = [f"split by {joined}"] + [f"{blank} scores dropped: no {joined} beside them"] * bool(blank)
    return [Part(_label(table, columns, int(rows[0])), rows) for rows in groups], notes


def _label(table: Table, columns: list[str], row: int) -> str:
    if len(columns) == 1 and columns[0] in table.text:
        return table.text[columns[0]][row]
    values = (table.text[name][row] if name in table.text else f"{table.columns[name][row]:g}" for name in columns)
    return ",".join(f"{name}={value}" for name, value in zip(columns, values, strict=True))
