"""Reads the runs of AllocBench out of the databases of its sweeps, which it never writes to."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from budgets.errors import InputError

from .prices import Prices, Work
from .table import Run

# The newest attempt of a step is the one that counts: an attempt that was lost was trained again.
_POINTS = """
SELECT optimizer_step, max(attempt), rollouts, tokens, seconds, score, score_standard_error, metrics
FROM points WHERE trial_id = ? GROUP BY optimizer_step ORDER BY optimizer_step
"""
# A run that still goes on is left out. Where the sweep has ended, a paused run is one that its GPU-hours ran out for.
_TRIALS = """
SELECT trials.id, trials.rollouts_per_prompt, trials.prompts_per_batch, trials.seed, trials.recipe
FROM trials JOIN sweeps ON sweeps.id = trials.sweep_id JOIN plans ON plans.id = sweeps.plan_id
WHERE sweeps.policy = 'full' AND json_extract(plans.config, '$.pilot.cells') = 'all'
  AND (trials.state IN ('finished', 'failed')
       OR trials.state = 'paused' AND sweeps.status IN ('finished', 'failed'))
ORDER BY trials.id
"""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A run that has ended, as its database has it."""

    task: str
    recipe: str
    n: int
    B: int
    seed: int
    points: list[tuple[Any, ...]]  # rows of _POINTS
    work: Work

    def run(self, prices: Prices) -> Run:
        """Return its row of the table, with the GPU-hours of a quiet machine."""
        hours = prices.gpu_hours(self.work)
        scored = [number for number, point in enumerate(self.points) if point[5] is not None]
        step, _, rollouts, tokens, seconds, score, error, _ = zip(
            *(self.points[number] for number in scored), strict=True
        )
        measured = {"step": step, "rollouts": rollouts, "tokens": tokens, "seconds": seconds, "score": score}
        arrays = {name: np.array(values, dtype=float) for name, values in measured.items()}
        errors = np.array([np.nan if each is None else each for each in error], dtype=float)
        return Run(
            self.task,
            self.recipe,
            self.n,
            self.B,
            self.seed,
            gpu_hours=hours[scored],
            standard_error=errors,
            **arrays,
        )


def recorded(database: Path, task: str) -> list[Recorded]:
    """Return the runs of full grids that have ended, in failure too; a running sweep may go on.

    Of a seed that was swept again the longest run counts.
    """
    if not database.is_file():
        return []
    longest: dict[tuple[str, int, int, int], Recorded] = {}
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for each in _recorded(connection, task):
            key = each.recipe, each.n, each.B, each.seed
            if key not in longest or len(longest[key].points) < len(each.points):
                longest[key] = each
    return list(longest.values())


def _recorded(connection: sqlite3.Connection, task: str) -> Iterator[Recorded]:
    for trial, n, B, seed, recipe in connection.execute(_TRIALS).fetchall():
        points = connection.execute(_POINTS, (trial,)).fetchall()
        if points:
            yield Recorded(task, recipe, n, B, seed, points, _work(points, n, B))


def _work(points: list[tuple[Any, ...]], n: int, B: int) -> Work:
    metrics = [json.loads(point[-1]) for point in points]
    parts = [each["seconds"] for each in metrics]
    generating = np.array([part.get("generate", 0.0) + part.get("reward", 0.0) for part in parts])
    validating = np.array([part.get("evaluate", 0.0) for part in parts])
    generated = np.diff(np.array([point[2] for point in points], dtype=float), prepend=0.0)
    if np.any((generated > 0) & (generating == 0)):
        raise InputError(
            f"n={n}, B={B}: updates without a generation of their own, as of recipes with several updates for each "
            "batch, have no price here: choose recipes with updates_per_batch = 1"
        )
    return Work(
        per_prompt=n,
        generated=generated,
        trained=np.array([each.get("trained_rollouts", 0.0) for each in metrics]),
        generating=generating,
        training=np.array([sum(part.values()) for part in parts]) - generating - validating,
        validating=validating,
        validated=np.array([point[5] is not None for point in points]),
    )
