"""Configurations that lie in the midst of others, so that a few of them stand for all."""

from collections.abc import Sequence

import numpy as np

from planner.pooling.features import places
from planner.view import Configuration


def spread_out(configurations: Sequence[Configuration], number: int) -> list[int]:
    """Return so many of them in order, each lowering the squared distances to the nearest chosen one the most."""
    if not configurations:
        return []
    points = places(configurations)
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    nearest = np.full(len(points), np.inf)
    chosen: list[int] = []
    for _ in range(min(number, len(points))):
        total = np.minimum(nearest, distance).sum(axis=1)
        total[chosen] = np.inf
        pick = int(np.argmin(total))
        chosen.append(pick)
        nearest = np.minimum(nearest, distance[pick])
    return chosen
