"""The table of AllocBench: runs, and the gzipped CSV files that hold their validation points."""

import csv
import gzip
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from budgets.errors import InputError
from planner.curves.curve import Curve

Vector = NDArray[np.float64]
Cell = tuple[int, int]  # (n, B)

COLUMNS = (
    "run",
    "rollouts_per_prompt",
    "prompts_per_batch",
    "seed",
    "gpu_hours",
    "score",
    "standard_error",
    "step",
    "rollouts",
    "tokens",
    "seconds",
    "task",
    "recipe",
)
_MEASURED = ("gpu_hours", "score", "standard_error", "step", "rollouts", "tokens", "seconds")


@dataclass(frozen=True, eq=False)
class Run:
    """One run's validation points, from before training to its end."""

    task: str
    recipe: str
    n: int
    B: int
    seed: int
    gpu_hours: Vector
    score: Vector
    standard_error: Vector
    step: Vector
    rollouts: Vector
    tokens: Vector
    seconds: Vector

    @property
    def name(self) -> str:
        """What tells it from the other runs of its task."""
        return f"{self.recipe}-n{self.n}-B{self.B}-s{self.seed}"

    @property
    def cell(self) -> Cell:
        """(n, B)."""
        return self.n, self.B

    def curve(self, x: str = "gpu_hours") -> Curve:
        """Return the learning curve against a column."""
        return Curve.of(self.name, getattr(self, x), self.score, bounded=True)


def write(runs: Iterable[Run], path: Path) -> int:
    """Write runs as one table; return its bytes. Equal runs give equal bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in sorted(runs, key=lambda run: (run.recipe, run.n, run.B, run.seed)):
        for row in zip(*(getattr(run, column) for column in _MEASURED), strict=True):
            hours, score, error, *counts, seconds = row
            writer.writerow(
                [run.name, run.n, run.B, run.seed, f"{hours:.6g}", f"{score:.8g}", f"{error:.5f}"]
                + [int(count) for count in counts]
                + [f"{seconds:.3f}", run.task, run.recipe]
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return path.stat().st_size


def read(path: Path) -> list[Run]:
    """Read a table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    if not rows:
        raise InputError(f"'{path}' has no rows: make it with `python bench/allocbench.py export`")
    return [_run(list(part)) for _, part in groupby(rows, key=lambda row: row["run"])]


def _run(rows: Sequence[dict[str, str]]) -> Run:
    first = rows[0]
    return Run(
        task=first["task"],
        recipe=first["recipe"],
        n=int(first["rollouts_per_prompt"]),
        B=int(first["prompts_per_batch"]),
        seed=int(first["seed"]),
        **{column: np.array([float(row[column]) for row in rows]) for column in _MEASURED},
    )
