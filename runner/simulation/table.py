"""Recorded runs as a table: `run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score`, a row a point.

A column `step` says after which update a row was taken; without it a run's rows are one update apart, from 0 when the
first has spent nothing and from 1 otherwise. `rollouts`, `tokens` and `score_standard_error` are taken over where they
are there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.curves.reading import Table
from planner.curves.reading.table import Rows
from planner.replaying.rows import FEWEST, NEEDED, constant, numbers, read_runs, require, runs_of, where_there, whole


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
    table = read_runs(path, "step, rollouts, tokens and score_standard_error")
    return [_recording(path, table, run, rows) for run, rows in runs_of(table)]


def _recording(path: Path, table: Table, run: str, rows: Rows) -> Recording:
    place = f"'{path}', run '{run}'"
    hours = numbers(table, "gpu_hours", rows, place)
    require(hours >= 0, rows, f"{place}: gpu_hours is below 0")
    require(np.append(True, np.diff(hours) > 0), rows, f"{place}: gpu_hours does not grow")
    counts = {name: whole(table, name, rows, place) for name in FEWEST if name in table.columns or name in table.text}
    (n, B, seed) = (constant(counts[name], name, rows, place) for name in NEEDED[1:4])
    steps = counts.get("step", np.arange(rows.size) + int(hours[0] > 0))
    require(np.append(True, np.diff(steps) > 0), rows, f"{place}: step does not grow")
    return Recording(
        run,
        n,
        B,
        seed,
        steps.astype(int).tolist(),
        hours.tolist(),
        where_there(table, "score", rows, place),
        where_there(table, "score_standard_error", rows, place),
        counts["rollouts"].astype(int).tolist() if "rollouts" in counts else None,
        counts["tokens"].astype(int).tolist() if "tokens" in counts else None,
    )
