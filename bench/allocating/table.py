"""Writes the table of AllocBench: gzipped CSV files that hold the validation points of runs."""

import csv
import gzip
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

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
