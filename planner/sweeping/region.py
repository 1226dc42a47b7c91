"""Where in the grid of n and B a better configuration may still be found."""

import math
from dataclasses import dataclass

import numpy as np

from planner.sweeping.beliefs import Standing
from planner.sweeping.grants import MARGIN
from planner.sweeping.pruning import bar
from planner.sweeping.table import Table
from planner.view import Cell, OpenCell, View

WIDENED = 1  # octaves, on every side
MOST_PROPOSED = 0.5  # of the number of trials that the plan had


@dataclass(frozen=True, slots=True)
class Region:
    """A box in (log2 n, log2 B), whole octaves, both ends in it."""

    low: tuple[int, int]
    high: tuple[int, int]

    def __contains__(self, cell: Cell) -> bool:
        return all(low <= place <= high for low, place, high in zip(self.low, octaves(cell), self.high, strict=True))


def octaves(cell: Cell) -> tuple[float, float]:
    """Return (log2 n, log2 B)."""
    return math.log2(cell[0]), math.log2(cell[1])


def possible_region(standing: Standing, alpha: float) -> Region | None:
    """Return the box around the cells that may still be the best, an octave wider; None while no curve says so.

    These are cells of living trials whose P(best), among configurations with a curve, has not fallen below the bar.
    """
    competing = int(np.isfinite(standing.configuration_means).sum())
    possible = standing.competes & standing.table["alive"]
    possible &= standing.probability_best_of_seen >= bar(alpha, competing)
    places = np.array([octaves(standing.table.trials[row].cell) for row in np.flatnonzero(possible)])
    if not len(places):
        return None
    low, high = np.floor(places.min(axis=0)) - WIDENED, np.ceil(places.max(axis=0)) + WIDENED
    return Region((max(0, int(low[0])), max(0, int(low[1]))), (int(high[0]), int(high[1])))


def open_in(region: Region, view: View, gpu_hours: float) -> list[OpenCell]:
    """Return the open cells in a region whose shortest pilot can be paid for, in the order of the plan."""
    return [cell for cell in view.open_cells.values() if cell.cell in region and MARGIN * cell.price <= gpu_hours]


def may_propose(table: Table) -> bool:
    """Whether the number of trials that were proposed during the sweep leaves room for another."""
    proposed = int(table["proposed"].sum())
    return proposed + 1 <= MOST_PROPOSED * (len(table) - proposed)
