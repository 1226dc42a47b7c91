"""How long responses are: a log-normal cut off at the cap, because a few run on until they are stopped."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import NormalDist

from budgets.errors import InputError

_NORMAL = NormalDist()
_GRID = 96
_REACH = 6  # log standard deviations above the location that the grid covers; one response in 10⁹ lies beyond


@dataclass(frozen=True)
class ResponseLengths:
    """Response tokens: log-normal of log standard deviation `spread`, cut at `cap`; `mean` is the one after the cut."""

    mean: float
    cap: int
    spread: float
    _location: float = field(init=False, repr=False, compare=False)
    _step: float = field(init=False, repr=False, compare=False)
    _cumulative: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.mean <= self.cap:
            raise InputError(
                f"mean response of {self.mean:g} tokens: it must be positive and at most the cap, {self.cap}"
            )
        if not 0 <= self.spread <= 3:
            raise InputError(f"response spread {self.spread}: it must lie between 0 (all alike) and 3")
        location = self._solve_location()
        step = min(self.cap, math.exp(location + _REACH * self.spread)) / _GRID
        object.__setattr__(self, "_location", location)
        object.__setattr__(self, "_step", step)
        grid = (math.log(step * (i + 0.5)) for i in range(_GRID))
        cumulative = () if self.fixed else tuple(_NORMAL.cdf((x - location) / self.spread) for x in grid)
        object.__setattr__(self, "_cumulative", cumulative)

    @property
    def fixed(self) -> bool:
        """Whether every response has the same length."""
        return self.spread == 0 or self.mean >= 0.999 * self.cap

    @property
    def truncated_share(self) -> float:
        """Share of responses that are cut at the cap."""
        if self.fixed:
            return float(self.mean >= 0.999 * self.cap)
        return 1 - _NORMAL.cdf((math.log(self.cap) - self._location) / self.spread)

    @cached_property
    def mean_square(self) -> float:
        """E[length²], which the attention and key-value traffic grow with."""
        return self.mean**2 if self.fixed else self._moment(self._location, 2)

    def longest_of(self, draws: float) -> float:
        """Return the expected longest of so many responses, ∫ 1 − F(ℓ)^draws dℓ up to the cap."""
        if self.fixed or draws <= 1:
            return self.mean
        return _longest_of(self, draws)

    def with_mean(self, mean: float) -> "ResponseLengths":
        """Return the same cap and spread with another mean, at most the cap."""
        return ResponseLengths(min(mean, self.cap), self.cap, self.spread)

    def _moment(self, location: float, order: int) -> float:
        """E[min(X, cap)^order] of the log-normal X."""
        z = (math.log(self.cap) - location) / self.spread
        inside = math.exp(order * location + (order * self.spread) ** 2 / 2) * _NORMAL.cdf(z - order * self.spread)
        return inside + float(self.cap) ** order * (1 - _NORMAL.cdf(z))

    def _solve_location(self) -> float:
        """Find the log-normal's location by bisection, since the cut makes its mean implicit."""
        if self.fixed:
            return math.log(self.mean)
        low, high = math.log(self.mean) - 5 * self.spread**2 - 5, math.log(self.cap) + 10 * self.spread + 5
        for _ in range(80):
            middle = (low + high) / 2
            if self._moment(middle, 1) < self.mean:
                low = middle
            else:
                high = middle
        return (low + high) / 2


@lru_cache(maxsize=4096)  # cells of a grid with as many rollouts share it
def _longest_of(lengths: ResponseLengths, draws: float) -> float:
    step, cumulative = lengths._step, lengths._cumulative
    # The grid's own error on the mean (draws = 1) is taken out, so that one draw gives the mean exactly.
    correction = lengths.mean - step * math.fsum(1 - f for f in cumulative)
    return min(float(lengths.cap), step * math.fsum(1 - f**draws for f in cumulative) + correction)
