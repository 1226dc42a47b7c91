"""All tables by name: AllocBench and its new tasks where they are there, the simulated suite, and the held-out ones."""

import functools
import gzip
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from bench.deciding.drawn import drawn
from bench.deciding.hard_starts import HARD_STARTS, hard_starts
from bench.deciding.held_out import MAKERS
from bench.deciding.public import pods
from bench.deciding.simulated import SCENARIOS, simulated
from planner.replay.recorded import Recorded
from planner.replay.table import read_recorded

DATA: Final = Path(__file__).parent.parent / "data"
SHARES: Final = (1.0, 0.5)  # of the length that nearly all runs of AllocBench have: its targets
SIMULATED, HELD_OUT, ALLOCBENCH, NEW_TASKS = "simulated", "held-out", "allocbench", "new-tasks"
# Targets that end where curves still rise: shares of a table's own. What is kept back has a group of its own.
LIMITED, LIMITED_UNSEEN, PUBLIC = "limited", "limited-unseen", "public"
LIMITS: Final = (0.1, 0.2, 0.35, 1.0)
MOST_POINTS: Final = 200  # of a drawn run whose target is that short
# Recorded after every constant had been chosen. A group of their own: figures over `allocbench` stay what they are.
NEW: Final = ("rewrite", "sort", "sum-steps")


def names(group: str | None = None) -> list[str]:
    """Return the names of a group's tables, or of all: `simulated/easy`, `held-out/rough`, `new-tasks/sort@1`."""
    found = {
        ALLOCBENCH: [f"{task}@{share:g}" for task in _recorded_tasks() for share in SHARES],
        NEW_TASKS: [f"{task}@{share:g}" for task in _tasks() if task in NEW for share in SHARES],
        SIMULATED: list(SCENARIOS),
        HELD_OUT: list(MAKERS),
        LIMITED: [f"{name}@{limit:g}" for name in (*_recorded_tasks(), HARD_STARTS) for limit in LIMITS],
        LIMITED_UNSEEN: [f"{name}@{limit:g}" for name in MAKERS for limit in LIMITS],
        PUBLIC: ["pods"],
    }
    return [f"{kind}/{name}" for kind, those in found.items() if group in (None, kind) for name in those]


def suite(wanted: Sequence[str], seed: int) -> dict[str, tuple[Recorded, float]]:
    """Return tables with their targets in GPU-hours; a group's name stands for all of its tables.

    Equal seeds give equal tables. The seed of a recorded table (AllocBench) changes nothing: there it is that of
    the play alone.
    """
    return {name: table(name, seed) for name in suite_names(wanted)}


def suite_names(wanted: Sequence[str]) -> list[str]:
    """Return the names of tables, a group's name standing for all of its tables."""
    return [name for one in wanted for name in (names(one) if "/" not in one else [one])]


def table(name: str, seed: int, points: int | None = None) -> tuple[Recorded, float]:
    """Return one table with its target; drawn runs have so many points, where that is given."""
    kind, _, rest = name.partition("/")
    if kind == SIMULATED and rest in SCENARIOS:
        return simulated(rest, seed, points)
    if kind == HELD_OUT and rest in MAKERS:
        return drawn(rest, seed, points)
    if kind in (ALLOCBENCH, NEW_TASKS) and name in names(kind):
        task, _, share = rest.partition("@")
        return opened(task, float(share))
    if kind in (LIMITED, LIMITED_UNSEEN) and name in names(kind):
        return _limited(*rest.partition("@")[::2], seed)
    if name in names(PUBLIC):
        return pods(seed)
    raise SystemExit(f"no table '{name}': there are {', '.join(names())}")


def _limited(name: str, limit: str, seed: int) -> tuple[Recorded, float]:
    """Return a table whose target is a share of its own, with points enough before that."""
    share = float(limit)
    if name in _recorded_tasks():
        return opened(name, share)
    points = round(min(MOST_POINTS, 40 / share))
    recorded, target = hard_starts(seed, points) if name == HARD_STARTS else drawn(name, seed, points)
    return recorded, share * target


def _recorded_tasks() -> list[str]:
    return [task for task in _tasks() if task not in NEW]


def _tasks() -> list[str]:
    found = (path.name.removeprefix("allocbench-").removesuffix(".csv.gz") for path in DATA.glob("allocbench-*.csv.gz"))
    return sorted(found)


@functools.lru_cache
def opened(task: str, share: float) -> tuple[Recorded, float]:
    """Return a table of AllocBench, with a target that nine tenths of its runs reach, or a share of that.

    Its hours count from the first score, which is the base model's: a validation before any update trains nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{task}.csv"
        path.write_bytes(gzip.decompress((DATA / f"allocbench-{task}.csv.gz").read_bytes()))
        read = read_recorded(path).recorded.runs
    recorded = Recorded(tuple(replace(run, gpu_hours=run.gpu_hours - run.gpu_hours[0]) for run in read))
    return recorded, share * float(np.quantile([run.length for run in recorded.runs], 0.1))
