"""What the prior lets one say of two cells: levels cancel, so that their difference is surer than either score."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from budgets.cost import Z90
from planner.proposals.request import PricedCell
from planner.proposals.worlds import ceiling

# Fits of the same recipe with three seeds differ by up to ±.02 in A (ScaleRL, arXiv 2510.13786), read as 90 %; that
# study gains about .2. Of two runs this counts twice.
SEED_SD: Final = 0.02 / Z90 / 0.2
LOSS_SD: Final = 0.5  # of a difference: what an octave costs is read off figures, and uncertain by half [A]
LEVEL: Final = 0.25  # chance of being ahead of the first from which a cell is called level with it
BEATEN: Final = 0.05  # chance below which a pilot would hardly find it ahead


def difference(cell: PricedCell, other: PricedCell, weights: Sequence[float]) -> tuple[float, float]:
    """Return by how much a cell is expected to be ahead of another, and the standard deviation of that."""
    apart = np.subtract(cell.score_by_world, other.score_by_world)
    mean = float(np.dot(weights, apart))
    base = cell.variant.workload.pass_rates.mean
    noise = math.sqrt(2) * SEED_SD * (1 - base) * ceiling(base)
    return mean, math.sqrt(float(np.dot(weights, (apart - mean) ** 2)) + noise**2 + (LOSS_SD * mean) ** 2)


def chance_ahead(cell: PricedCell, other: PricedCell, weights: Sequence[float]) -> float:
    """Return the probability that a cell does better than another."""
    mean, sd = difference(cell, other, weights)
    return 0.5 * math.erfc(-mean / (sd * math.sqrt(2)))
