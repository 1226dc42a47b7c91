"""What the full grid says: AllocBench's table of a task, its target, its cost, and the truth there."""

import csv
import gzip
import sqlite3
import statistics
import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from budgets.errors import InputError
from planner.replaying.reading import read_recorded
from planner.replaying.recorded import Recorded

DATA = Path(__file__).resolve().parents[1] / "data"
Cell = tuple[int, int]  # (n, B)


@dataclass(frozen=True)
class Grid:
    """The runs of one task, in GPU-hours of a quiet machine; the target is the middle of their lengths."""

    recorded: Recorded
    steps: dict[Cell, tuple[list[float], list[float]]]  # of each cell's first run: updates and GPU-hours

    @classmethod
    def read(cls, task: str, data: Path = DATA) -> "Grid":
        """Read the table of a task."""
        path = data / f"allocbench-{task}.csv.gz"
        if not path.is_file():
            raise InputError(f"there is no table {path}: make it with `python bench/allocbench.py make` and `export`")
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / "table.csv"
            plain.write_text(text, encoding="utf-8")
            recorded = read_recorded(plain).recorded
        steps: dict[Cell, tuple[list[float], list[float]]] = {}
        runs: dict[Cell, str] = {}
        for row in csv.DictReader(text.splitlines()):
            cell = int(row["rollouts_per_prompt"]), int(row["prompts_per_batch"])
            if runs.setdefault(cell, row["run"]) == row["run"]:
                updates, hours = steps.setdefault(cell, ([], []))
                updates.append(float(row["step"]))
                hours.append(float(row["gpu_hours"]))
        return cls(recorded, steps)

    @cached_property
    def target(self) -> float:
        """GPU-hours at which configurations are compared."""
        return statistics.median(run.length for run in self.recorded.runs)

    @cached_property
    def cost(self) -> float:
        """GPU-hours of one run of every cell up to the target."""
        return self.recorded.full_cost(self.target)

    @cached_property
    def truth(self) -> dict[Cell, float]:
        """What each cell scores at the target, the mean over its seeds."""
        return {each[:2]: score for each, score in self.recorded.truth(self.target).items()}

    def hours_at(self, cell: Cell, step: int) -> float:
        """Return a cell's GPU-hours at an update, beyond the end of its run as if it had gone on."""
        updates, hours = self.steps[cell]
        if step <= updates[-1]:
            return float(np.interp(step, updates, hours))
        return hours[-1] * step / updates[-1]

    def slowness(self, database: Path, sweep: str) -> float:
        """Return how many times as long as on a quiet machine the updates of a sweep took: the median of its trials."""
        ratios = [hours / self.hours_at(cell, step) for cell, step, hours in _trials(database, sweep) if cell in self]
        if not ratios:
            raise InputError(f"{sweep} in {database} has no trial of a cell of the table: its speed cannot be told")
        return statistics.median(ratios)

    def trained(self, database: Path, sweep: str) -> float:
        """Return the GPU-hours that the training of a sweep's trials would have taken on a quiet machine."""
        return sum(self.hours_at(cell, step) for cell, step, _ in _trials(database, sweep) if cell in self)

    def __contains__(self, cell: Cell) -> bool:
        return cell in self.steps


def _trials(database: Path, sweep: str) -> list[tuple[Cell, int, float]]:
    """Return cell, last update and GPU-hours of every trial that has made one."""
    wanted = """
        SELECT trials.rollouts_per_prompt, trials.prompts_per_batch, max(optimizer_step), max(points.gpu_hours)
        FROM points JOIN trials ON trials.id = points.trial_id JOIN sweeps ON sweeps.id = trials.sweep_id
        WHERE sweeps.name = ? AND optimizer_step > 0 GROUP BY trials.id
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [((n, B), step, hours) for n, B, step, hours in connection.execute(wanted, (sweep,)).fetchall()]
