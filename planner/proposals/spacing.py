"""How far configurations lie from each other, and where the gaps are between those that were chosen.

A design fills the space of n and B for each value of a categorical axis, not for each combination of values: a sliced
design (Qian 2012, Sliced Latin hypercube designs). The gap of a configuration is the geometric mean of its distance to
all that were chosen and, for each categorical axis, to those with its own value; no value stays without a configuration
while there is one to be had.
"""

import math
from collections.abc import Sequence

from planner.axes import CATEGORICAL, values_by_axis
from planner.view import Configuration

APART = 2.0  # octaves that two values of a categorical axis count for
EMPTY = 16.0  # octaves to a slice of which nothing is chosen yet: farther than any grid reaches


def octaves(a: Configuration, b: Configuration) -> float:
    """Return the distance in (log2 n, log2 B) and the further axes."""
    return math.sqrt(
        math.log2(a.rollouts_per_prompt / b.rollouts_per_prompt) ** 2
        + math.log2(a.prompts_per_batch / b.prompts_per_batch) ** 2
        + sum(_along(name, value, dict(b.axes).get(name)) ** 2 for name, value in a.axes)
    )


class Spread:
    """The distances of configurations to those that were chosen so far, which are added one by one."""

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        """Begin with nothing chosen."""
        found = values_by_axis(each.axes for each in configurations)
        self._sliced = [name for name in CATEGORICAL if len(found.get(name, ())) > 1]
        self._nearest = dict.fromkeys(configurations, math.inf)
        self._in_slice = {name: dict.fromkeys(configurations, EMPTY) for name in self._sliced}

    def add(self, chosen: Configuration) -> None:
        """Count one more as chosen."""
        for each in self._nearest:
            distance = octaves(each, chosen)
            self._nearest[each] = min(self._nearest[each], distance)
            for name in self._sliced:
                if dict(each.axes)[name] == dict(chosen.axes)[name]:
                    self._in_slice[name][each] = min(self._in_slice[name][each], distance)

    def nearest(self, configuration: Configuration) -> float:
        """Return the distance to the nearest chosen one, infinite while there is none."""
        return self._nearest[configuration]

    def unseen(self, configuration: Configuration) -> int:
        """Return on how many categorical axes nothing with its value was chosen yet."""
        return sum(distances[configuration] == EMPTY for distances in self._in_slice.values())

    def gap(self, configuration: Configuration) -> float:
        """Return how much room there is around a configuration, among all and among those of its values."""
        product = self._nearest[configuration]
        for name in self._sliced:
            product *= self._in_slice[name][configuration]
        return float(product ** (1 / (1 + len(self._sliced))))


def _along(name: str, value: str | float, other: str | float | None) -> float:
    if value == other:
        return 0.0
    if name in CATEGORICAL or other is None:
        return APART
    return abs(math.log2(float(value) / float(other)))
