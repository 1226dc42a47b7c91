"""A public sweep with ten seeds: one of them is played, the mean of all is the truth.

PODS (Xu et al., arXiv 2504.13818; YixuanEvenXu/pods at 187f43b, Apache-2.0): Qwen2.5-3B-Instruct on GSM8K, one prompt
an update, LoRA, one GPU; how many rollouts are generated, how many are trained on, and how those are selected.
Accuracy on the test set after every half hour.
"""

import csv
import functools
import gzip
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from planner.replay.recorded import Recorded, RecordedRun
from planner.view import Configuration

FILE: Final = Path(__file__).parent.parent / "data" / "pods.csv.gz"
TARGET: Final = 6.0  # GPU-hours, the length of all runs
ANSWERS: Final = 1319 * 5  # behind an accuracy


@dataclass(frozen=True, eq=False)
class OneSeed(Recorded):
    """One run of each configuration, and what all of their runs come to."""

    every: Recorded

    def truth(self, target: float) -> dict[Configuration, float]:
        """Return the mean over all seeds."""
        return self.every.truth(target)


def pods(seed: int) -> tuple[Recorded, float]:
    """Return a seed's runs, the seeds in turn, and the target."""
    every = _runs()
    number = seed % len({run.seed for run in every.runs}) + 1
    return OneSeed(tuple(run for run in every.runs if run.seed == number), every), TARGET


@functools.lru_cache
def _runs() -> Recorded:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: dict[tuple[Configuration, int], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        recipe = f"{row['selection']}-{row['trained']}"
        configuration = Configuration(int(row["generated"]), 1, (("recipe", recipe),))
        found[configuration, int(row["seed"])].append((float(row["hours"]), float(row["accuracy"])))
    return Recorded(tuple(_run(*key, points) for key, points in found.items()))


def _run(configuration: Configuration, seed: int, points: list[tuple[float, float]]) -> RecordedRun:
    hours, scores = map(np.array, zip(*sorted(points), strict=True))
    errors = np.sqrt(scores * (1 - scores) / ANSWERS)
    name = f"n{configuration.rollouts_per_prompt}-{configuration.axes[0][1]}-s{seed}"
    return RecordedRun(name, configuration, seed, hours, scores, errors)
