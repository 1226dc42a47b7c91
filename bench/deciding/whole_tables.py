"""Tables that the whole money is played on: AllocBench, PODS and the unseen generators, each with its family."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.deciding import tables
from bench.deciding.drawn import drawn
from bench.deciding.hard_starts import hard_starts
from bench.deciding.held_out import MAKERS
from bench.deciding.public import pods
from planner.replay.recorded import Recorded

PARTS: Final = (0.3, 0.4, 0.6, 1.0)  # of a table's length: what everybody has in all
SEEDS: Final = (0, 1)  # of each generator
POINTS: Final = 150


@dataclass(frozen=True, eq=False)
class WholeTable:
    """A table, the family that its runs are of, and the GPU-hours that nine tenths of its runs have."""

    name: str
    family: str
    recorded: Recorded

    @property
    def length(self) -> float:
        """GPU-hours that nine tenths of the runs have."""
        return float(np.quantile([run.length for run in self.recorded.runs], 0.1))


def whole_tables() -> list[WholeTable]:
    """Return all tables; recorded ones begin with A (AllocBench) or P (PODS), generated ones with G."""
    tasks = [
        name.partition("@")[0] for name in tables.names() if name.startswith("allocbench/") and name.endswith("@1")
    ]
    tasks += [
        name.partition("@")[0] for name in tables.names() if name.startswith("new-tasks/") and name.endswith("@1")
    ]
    recorded = [
        WholeTable(f"A:{task}", "A:" + task.removeprefix("recipes-"), tables.opened(task, 1.0)[0])
        for task in dict.fromkeys(name.partition("/")[2] for name in tasks)
    ]
    generated = [
        WholeTable(f"G:{name}/{seed}", f"G:{name}", drawn(name, seed, POINTS)[0]) for name in MAKERS for seed in SEEDS
    ]
    late = [WholeTable(f"G:hard-starts/{seed}", "G:hard-starts", hard_starts(seed, POINTS)[0]) for seed in SEEDS]
    return [*recorded, WholeTable("P:pods", "P:pods", pods(0)[0]), *generated, *late]
