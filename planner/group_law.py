"""The law of the compute-optimal number of rollouts per prompt, as IsoCompute (arXiv 2603.12151) writes it."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptimalGroupLaw:
    """log2 n*(C) = rise / (1 + exp(−steepness·(log10 C − midpoint))) + floor, with C in rollouts."""

    rise: float
    steepness: float
    midpoint: float
    floor: float

    def __call__(self, rollouts: float) -> float:
        """Return n* at so many rollouts."""
        exponent = min(700.0, -self.steepness * (math.log10(rollouts) - self.midpoint))
        return math.exp2(self.rise / (1 + math.exp(exponent)) + self.floor)
