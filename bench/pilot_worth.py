"""How much early curves tell of the order in the end: the error of what pilots show, over the spread of the cells.

    python -m bench.pilot_worth [--repeats 1] [--distances 2 5 10 20 50]

Three quarters of a table's cells have a pilot up to the target over the distance. What is expected of them at the
target, less the mean over cells, is held against what came: the correlation's square r² is the share of the differences
that the pilots explain (as shares of what the best gains, so that tables add up), and √(1/r² − 1) the error of a pilot
that would explain as much, in standard deviations between cells.
`planner/proposals/worth.py` has the mean of AllocBench's recorded tables and the held-out drawn ones.
"""

import argparse
import math
import os
from collections.abc import Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bench.coverage import DISTANCES, POINTS, near
from bench.covering.pilots import Belief, beliefs
from bench.deciding import tables
from planner.curves.curve import Vector

GROUPS = ("allocbench", "held-out")
FEWEST = 4  # cells of a table with a pilot of that length
LEAST_GAIN = 0.02  # of a table that is no matter of noise alone


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--distances", nargs="+", type=float, default=list(DISTANCES))
    given = parser.parse_args()
    print(f"{'beyond the pilots':18}" + "".join(f"{group:>24}" for group in GROUPS) + f"{'mean':>8}")
    for distance in given.distances:
        found = [_measured(group, distance, given.repeats) for group in GROUPS]
        told = "".join(f"{f'r² {square:.2f}, error {error(square):.2f}':>24}" for square in found)
        print(f"{f'{distance:g} ×':18}{told}{_mean(found):8.2f}", flush=True)


def _measured(group: str, distance: float, repeats: int) -> float:
    """Return the squared correlation within the tables of a group."""
    sums = np.zeros(3)
    for repeat in range(repeats):
        for name in tables.names(group):
            recorded, target = tables.table(name, repeat, POINTS)
            found = beliefs(name, recorded, target, distance, repeat)
            reached = [one for one in found if one.seen and near(one, distance)]
            base = float(np.mean([run.scores[0] for run in recorded.runs]))
            if len(reached) >= FEWEST:
                sums += products(reached, base)
    crossed, expected, came = sums
    return float(crossed**2 / (expected * came)) if crossed > 0 else 0.0


def products(reached: Sequence[Belief], base: float) -> Vector:
    """Return the sums of products of what was expected and what came, both as shares of what the best run gained."""
    told, truth = (np.array([getattr(one, name) for one in reached]) for name in ("expectation", "truth"))
    gain = max(truth.max() - base, LEAST_GAIN)
    told, truth = ((each - each.mean()) / gain for each in (told, truth))
    return np.array([told @ truth, told @ told, truth @ truth])


def _mean(found: Sequence[float]) -> float:
    """Return the mean error of the groups that have pilots of that length."""
    return float(np.mean([error(square) for square in found if square > 0] or [math.inf]))


def error(square: float) -> float:
    """Return the error of a pilot that explains such a share, over the spread."""
    return math.sqrt(1 / square - 1) if square > 0 else math.inf


if __name__ == "__main__":
    main()
