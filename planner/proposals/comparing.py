"""What the prior lets one say of two cells: levels cancel, so that their difference is surer than either score."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Final

import numpy as np

from budgets.cost import Z90
from planner.proposals.prior import Circumstances, distance
from planner.proposals.request import Ground, PricedCell, Standing
from planner.proposals.worlds import WORLDS, Values, ceiling

# Fits of the same recipe with three seeds differ by up to ±.02 in A (ScaleRL, arXiv 2510.13786), read as 90 %; that
# study gains about .2. Of two runs this counts twice.
SEED_SD: Final = 0.02 / Z90 / 0.2
LOSS_SD: Final = 0.5  # of a difference: what an octave costs is read off figures, and uncertain by half [A]
LEVEL: Final = 0.25  # chance of being ahead of the first from which a cell is called level with it
BEATEN: Final = 0.05  # chance below which a pilot would hardly find it ahead


def difference(cell: PricedCell, other: PricedCell, weights: Sequence[float]) -> tuple[float, float]:
    """Return by how much a cell is expected to be ahead of another, and the standard deviation of that."""
    apart: Values = np.subtract(cell.score_by_world, other.score_by_world)
    sds = np.hypot(noise_between(cell.variant.workload.pass_rates.mean), LOSS_SD * apart)
    mean = float(np.dot(weights, apart))
    return mean, math.sqrt(float(np.dot(weights, (apart - mean) ** 2 + sds**2)))


def chance_ahead(cell: PricedCell, other: PricedCell, weights: Sequence[float]) -> float:
    """Return the probability that a cell does better than another, whichever world is true."""
    noise, chance = noise_between(cell.variant.workload.pass_rates.mean), 0.0
    # A dozen worlds: arrays would take several times as long, and every proposal asks this a thousand times.
    for weight, own, others in zip(weights, cell.score_by_world, other.score_by_world, strict=True):
        sd = math.hypot(noise, LOSS_SD * (own - others))
        chance += weight * math.erfc((others - own) / (sd * math.sqrt(2))) / 2
    return chance


@lru_cache(maxsize=64)
def noise_between(base: float) -> float:
    """Return by how much two runs of the same cell differ, as a standard deviation, at a base pass rate."""
    return math.sqrt(2) * SEED_SD * (1 - base) * ceiling(base)


def standings(ranked: Sequence[PricedCell], weights: Sequence[float], usual: tuple[int, int]) -> list[Standing]:
    """Return how each cell stands against the first, and which is the usual choice or the nearest to it."""
    nearest = min(ranked, key=lambda cell: math.dist(np.log2(cell.key), np.log2(usual)))
    found = []
    for cell in ranked:
        mean, sd = difference(cell, ranked[0], weights)
        level = chance_ahead(cell, ranked[0], weights) >= LEVEL
        found.append(Standing(mean, mean - Z90 * sd, mean + Z90 * sd, level, cell is nearest))
    return found


def grounds(ranked: Sequence[PricedCell], weights: Sequence[float]) -> tuple[Ground, ...]:
    """Return each study with its weight, its distance, and the cell that would be first by it alone."""
    scores = np.array([cell.score_by_world for cell in ranked])
    here = Circumstances.of(ranked[0].variant.workload)
    found = []
    for study, group in groupby(range(len(WORLDS)), lambda place: WORLDS[place].study):
        places = list(group)
        shares = np.array([weights[place] for place in places])
        alone = ranked[int(np.argmax(scores[:, places] @ shares))]
        studied = WORLDS[places[0]].studied
        away = distance(studied, here) if studied is not None else None
        found.append(Ground(study, float(shares.sum()), away, *alone.key))
    return tuple(sorted(found, key=attrgetter("weight"), reverse=True))
