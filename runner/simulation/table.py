"""Recorded runs as a table: `run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score`, a row a point.

A column `step` says after which update a row was taken; without it a run's rows are one update apart, from 0 when the
first has spent nothing and from 1 otherwise. `rollouts`, `tokens` and `score_standard_error` are taken over where they
are there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from budgets.errors import InputError
from planner.curves.reading import Table, read_table
from planner.curves.reading.table import Rows, Vector, listing

NEEDED: Final = ("run", "rollouts_per_prompt", "prompts_per_batch", "seed", "gpu_hours", "score")
FEWEST: Final = {"rollouts_per_prompt": 1, "prompts_per_batch": 1, "seed": 0, "step": 0, "rollouts": 0, "tokens": 0}


@dataclass(frozen=True)
class Recording:
    """One run: lists of equal length, in the order of its steps."""

    run: str
    rollouts_per_prompt: int
    prompts_per_batch: int
    seed: int
    steps: Sequence[int]
    gpu_hours: Sequence[float]
    scores: Sequence[float | None]
    errors: Sequence[float | None]  # standard ones, of the scores
    rollouts: Sequence[int] | None
    tokens: Sequence[int] | None

    @property
    def trial(self) -> tuple[int, int, int]:
        """(n, B, seed)."""
        return self.rollouts_per_prompt, self.prompts_per_batch, self.seed


def read_recordings(path: Path) -> list[Recording]:
    """Return the runs of a CSV in the order in which they begin; InputError names the row that is not allowed."""
    (table, *_) = read_table(path)
    missing = [name for name in NEEDED if name not in table.columns and name not in table.text]
    if missing:
        there = listing([*table.columns, *table.text])
        raise InputError(
            f"'{path}' has no column {' or '.join(missing)}: a table of runs has {', '.join(NEEDED)}, and may have "
            f"step, rollouts, tokens and score_standard_error. It has {there}"
        )
    return [_recording(path, table, run, rows) for run, rows in _runs(table)]


def _runs(table: Table) -> Iterator[tuple[str, Rows]]:
    named = table.text.get("run") or [f"{value:g}" for value in table.columns["run"]]
    _, first, runs = np.unique(np.asarray(named), return_index=True, return_inverse=True)
    for run in np.argsort(first):
        yield named[first[run]], np.flatnonzero(runs == run)


def _recording(path: Path, table: Table, run: str, rows: Rows) -> Recording:
    place = f"'{path}', run '{run}'"
    hours = _numbers(table, "gpu_hours", rows, place)
    _require(hours >= 0, rows, f"{place}: gpu_hours is below 0")
    _require(np.append(True, np.diff(hours) > 0), rows, f"{place}: gpu_hours does not grow")
    whole = {name: _whole(table, name, rows, place) for name in FEWEST if name in table.columns or name in table.text}
    (n, B, seed) = (_constant(whole[name], name, rows, place) for name in NEEDED[1:4])
    steps = whole.get("step", np.arange(rows.size) + int(hours[0] > 0))
    _require(np.append(True, np.diff(steps) > 0), rows, f"{place}: step does not grow")
    return Recording(
        run,
        n,
        B,
        seed,
        steps.astype(int).tolist(),
        hours.tolist(),
        _where_there(table, "score", rows, place),
        _where_there(table, "score_standard_error", rows, place),
        whole["rollouts"].astype(int).tolist() if "rollouts" in whole else None,
        whole["tokens"].astype(int).tolist() if "tokens" in whole else None,
    )


def _numbers(table: Table, name: str, rows: Rows, place: str) -> Vector:
    if name not in table.columns:
        raise InputError(f"{place}: {name} holds text: it must hold numbers")
    values = table.columns[name][rows]
    _require(np.isfinite(values), rows, f"{place}: {name} is missing or not a number")
    return values


def _whole(table: Table, name: str, rows: Rows, place: str) -> Vector:
    values = _numbers(table, name, rows, place)
    least = FEWEST[name]
    _require((values >= least) & (values == np.rint(values)), rows, f"{place}: {name} must be whole and ≥ {least}")
    return values


def _where_there(table: Table, name: str, rows: Rows, place: str) -> list[float | None]:
    if name in table.text and any(table.text[name]):
        raise InputError(f"{place}: {name} holds text: it must hold numbers, or nothing where there is none")
    values = table.columns.get(name)
    return [None if values is None or np.isnan(values[row]) else float(values[row]) for row in rows]


def _constant(values: Vector, name: str, rows: Rows, place: str) -> int:
    _require(values == values[0], rows, f"{place}: {name} changes within the run; name each run differently")
    return int(values[0])


def _require(holds: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], rows: Rows, complaint: str) -> None:
    """Refuse the first row for which something does not hold; rows are counted as an editor shows them."""
    if not holds.all():
        raise InputError(f"{complaint} (line {rows[int(np.argmin(holds))] + 2})")
