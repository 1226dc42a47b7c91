"""How often a group of rollouts carries any signal, before a GPU-hour is spent.

With pass rate p, a group of n has differing rewards with probability 1 − pⁿ − (1−p)ⁿ; all others have zero advantage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from budgets.errors import InputError


class PassRates(Protocol):
    """How the pass rates of the base model are spread over the prompts."""

    @property
    def mean(self) -> float:
        """Average pass rate over the prompts."""

    def unanimous(self, group_size: int) -> float:
        """Return E[pⁿ + (1−p)ⁿ], the share of groups that agree on right or on wrong."""

    def __hash__(self) -> int:
        """Equal spreads have equal hashes: what is worked out of one is kept."""


@lru_cache(maxsize=1024)  # a plan asks for a few sizes thousands of times
def signal_fraction(pass_rates: PassRates, group_size: int) -> float:
    """Return the expected share of groups with differing rewards."""
    return min(1.0, max(0.0, 1.0 - pass_rates.unanimous(group_size)))


@dataclass(frozen=True, slots=True)
class UniformPassRates:
    """Pass rates spread evenly between two bounds, as a difficulty band selects them."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise InputError(f"pass rates between {self.low} and {self.high}: bounds must satisfy 0 ≤ low < high ≤ 1")

    @property
    def mean(self) -> float:
        """Average pass rate over the prompts."""
        return (self.low + self.high) / 2

    def unanimous(self, group_size: int) -> float:
        """Return the integral of pⁿ + (1−p)ⁿ over the band."""
        power = group_size + 1
        right = self.high**power - self.low**power
        wrong = (1 - self.low) ** power - (1 - self.high) ** power
        return (right + wrong) / (power * (self.high - self.low))


@dataclass(frozen=True, slots=True)
class BetaPassRates:
    """Pass rates of which only the mean is known, spread around it as a Beta distribution.

    Concentration 3 lies between the flat distribution (2 at mean ½) and a band: prompts differ widely in difficulty.
    """

    mean_rate: float
    concentration: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.mean_rate < 1:
            raise InputError(
                f"pass rate {self.mean_rate}: it must lie strictly between 0 and 1, because at 0 or 1 no group "
                "carries signal and there is nothing to plan"
            )

    @property
    def mean(self) -> float:
        """Average pass rate over the prompts."""
        return self.mean_rate

    def unanimous(self, group_size: int) -> float:
        """Return E[pⁿ] + E[(1−p)ⁿ] from the moments of the Beta distribution."""
        right = self.mean_rate * self.concentration
        wrong = self.concentration - right
        return _beta_moment(right, wrong, group_size) + _beta_moment(wrong, right, group_size)


@dataclass(frozen=True, slots=True)
class MeasuredPassRates:
    """One measured pass rate per prompt."""

    rates: tuple[float, ...]
    read_as: str = ""  # how a file's values were taken, where there was a choice

    def __post_init__(self) -> None:
        if not self.rates:
            raise InputError("no pass rates given: at least one prompt is needed")
        for rate in self.rates:
            if not 0 <= rate <= 1:
                raise InputError(
                    f"pass rate {rate}: each must lie between 0 and 1 (percentages must be divided by 100)"
                )

    @property
    def mean(self) -> float:
        """Average pass rate over the prompts."""
        return math.fsum(self.rates) / len(self.rates)

    def unanimous(self, group_size: int) -> float:
        """Return the average of pⁿ + (1−p)ⁿ over the prompts."""
        return math.fsum(p**group_size + (1 - p) ** group_size for p in self.rates) / len(self.rates)


# The two published bands are avg@16 of the base model in the IsoCompute study; `medium` is the gap between them.
DIFFICULTIES: dict[str, UniformPassRates] = {
    "easy": UniformPassRates(0.3, 0.6),
    "medium": UniformPassRates(0.0625, 0.3),
    "hard": UniformPassRates(0.0, 0.0625),
    "mixed": UniformPassRates(0.0, 1.0),
}


def difficulty_of(rates: Sequence[float] | float) -> str:
    """Name the band that measured pass rates, or their mean, fall into."""
    values = [rates] if isinstance(rates, float) else list(rates)
    mean = math.fsum(values) / len(values)
    for name in ("hard", "medium", "easy"):
        band = DIFFICULTIES[name]
        inside = sum(band.low <= value <= band.high for value in values)
        if band.low <= mean <= band.high and inside >= 0.75 * len(values):
            return name
    return "mixed"


def _beta_moment(a: float, b: float, power: int) -> float:
    return math.exp(math.lgamma(a + power) - math.lgamma(a) + math.lgamma(a + b) - math.lgamma(a + b + power))
