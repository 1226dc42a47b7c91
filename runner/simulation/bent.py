"""Bends a drawn world's curves to what earlier sweeps say of how they depend on the configuration.

The levels, and what each cell departs from a smooth surface, stay the world's own; slopes, curvatures and products are
drawn from what the sources say, as often as they are believed before a curve is seen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from planner.curves.curve import Vector
from planner.experience.experience import is_transferred
from planner.pooling.features import LOCALS, MIDDLE, STEEPNESS, TOP, Features
from planner.pooling.priors import LearntPrior
from runner.simulation.surfaces import Shape

TOPS: Final = (0.005, 0.98)  # share of what the base model lacks that a curve may end at
EXPONENTS: Final = (0.3, 3.0)


@dataclass(frozen=True)
class Taught:
    """What sources say of some cells; `units` are the rollouts of each one's final run."""

    units: tuple[float, ...]
    smooth: Features
    priors: Sequence[LearntPrior]


def bent(shapes: Sequence[Shape], taught: Taught, rng: np.random.Generator) -> list[Shape]:
    """Return the curves under one source, or under none."""
    units, smooth, chances = taught.units, taught.smooth, [prior.weight for prior in taught.priors]
    drawn = rng.choice(len(chances) + 1, p=[*chances, 1 - math.fsum(chances)])
    if drawn == len(chances):
        return list(shapes)
    prior, known = taught.priors[drawn], len(smooth.terms)
    at = [place for place, term in enumerate(smooth.terms) if is_transferred(term)]
    wanted = rng.multivariate_normal(prior.mean[at], prior.covariance[np.ix_(at, at)])
    design, read = smooth.design[:, :, :known], _read(shapes, units)
    own = np.linalg.lstsq(design.reshape(-1, known), read.reshape(-1), rcond=None)[0]
    moved = read + design[:, :, at] @ (wanted - own[at])
    return [_written(shape, unit, *row) for shape, unit, row in zip(shapes, units, moved.tolist(), strict=True)]


def _read(shapes: Sequence[Shape], units: Sequence[float]) -> Vector:
    """Return (cells, 3): logit of the share that is gained, log of the midpoint in final runs, log of the exponent."""
    found = np.empty((len(shapes), LOCALS))
    for row, shape, unit in zip(found, shapes, units, strict=True):
        top = min(TOPS[1], max(TOPS[0], (shape.asymptote - shape.base) / (1 - shape.base)))
        row[TOP] = math.log(top / (1 - top))
        row[MIDDLE] = math.log(shape.middle / unit)
        row[STEEPNESS] = math.log(shape.exponent)
    return found


def _written(shape: Shape, unit: float, top: float, middle: float, steepness: float) -> Shape:
    gained = min(TOPS[1], max(TOPS[0], 1 / (1 + math.exp(-top))))
    low, high = EXPONENTS
    return replace(
        shape,
        asymptote=shape.base + gained * (1 - shape.base),
        middle=unit * math.exp(middle),
        exponent=min(high, max(low, math.exp(steepness))),
    )
