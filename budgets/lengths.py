"""How long responses are: a log-normal cut off at the cap, because a few run on until they are stopped."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from statistics import NormalDist

from budgets.errors import InputError

_NORMAL = NormalDist()
_GRID = 96
_PLACES = 16  # of a drawn interruption
REST_SHARE = 0.5  # of the room behind the last interruption that phrase and answer take
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
        return float(self.mean >= 0.999 * self.cap) if self.fixed else self.longer_than(self.cap)

    @cached_property
    def mean_square(self) -> float:
        """E[length²], which the attention and key-value traffic grow with."""
        return self.mean**2 if self.fixed else self._moment(self._location, 2)

    def longest_of(self, draws: float) -> float:
        """Return the expected longest of so many responses."""
        return self.mean if self.fixed or draws <= 1 else _longest_of(self, draws, 1)

    def longest_square_of(self, draws: float) -> float:
        """Return the expected square of the longest of so many responses."""
        return self.mean_square if self.fixed or draws <= 1 else _longest_of(self, draws, 2)

    def with_mean(self, mean: float) -> "ResponseLengths":
        """Return the same cap and spread with another mean, at most the cap."""
        return ResponseLengths(min(mean, self.cap), self.cap, self.spread)

    def longer_than(self, tokens: float) -> float:
        """Return the share of responses that are longer than so many tokens, which are fewer than the cap."""
        if self.fixed:
            return float(self.mean > tokens)
        return 1 - _NORMAL.cdf((math.log(tokens) - self._location) / self.spread)

    def moment_up_to(self, tokens: float, order: int) -> float:
        """Return E[min(length, tokens)^order]."""
        return min(self.mean, tokens) ** order if self.fixed else self._moment(self._location, order, tokens)

    def _moment(self, location: float, order: int, cut: float | None = None) -> float:
        """E[min(X, cut)^order] of the log-normal X; without a cut it is at the cap."""
        cut = float(self.cap) if cut is None else cut
        z = (math.log(cut) - location) / self.spread
        inside = math.exp(order * location + (order * self.spread) ** 2 / 2) * _NORMAL.cdf(z - order * self.spread)
        return inside + cut**order * (1 - _NORMAL.cdf(z))

    def _solve_location(self) -> float:
        """Find the log-normal's location by bisection, since the cut makes its mean implicit."""
        if self.fixed:
            return math.log(self.mean)
        low, high = math.log(self.mean) - 5 * self.spread**2 - 5, math.log(self.cap) + 10 * self.spread + 5
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self._moment(middle, 1) < self.mean else (low, middle)
        return (low + high) / 2


@dataclass(frozen=True)
class InterruptedLengths(ResponseLengths):
    """Lengths of responses that a closing phrase cuts short, each at a place drawn between two; `mean` is theirs.

    Phrase and answer are taken to fill a share of the room behind the last place.
    """

    places: tuple[float, ...]
    rest: float  # tokens of phrase and answer
    natural: ResponseLengths  # what they would be

    def __post_init__(self) -> None:
        natural, step = self.natural, self.cap / _GRID
        longer = [natural.longer_than(place) for place in self.places]

        def up_to(tokens: float) -> float:
            ended = (1 - natural.longer_than(min(tokens, place)) for place in self.places)
            answered = (share for place, share in zip(self.places, longer, strict=True) if place + self.rest <= tokens)
            return (math.fsum(ended) + math.fsum(answered)) / len(self.places)

        object.__setattr__(self, "_step", step)
        object.__setattr__(self, "_cumulative", tuple(up_to(step * (i + 0.5)) for i in range(_GRID)))

    @property
    def fixed(self) -> bool:
        """Whether every response has the same length."""
        return False

    @property
    def interrupted_share(self) -> float:
        """Share of responses that are interrupted."""
        return math.fsum(map(self.natural.longer_than, self.places)) / len(self.places)

    @property
    def truncated_share(self) -> float:
        """Share of responses that are cut at the cap: those that are made to answer are not."""
        return 0.0

    @cached_property
    def mean_square(self) -> float:
        """E[length²]."""
        return _interrupted_moment(self.natural, self.places, self.rest, 2)

    def with_mean(self, mean: float) -> ResponseLengths:
        """Return these lengths as they are where responses would have another mean."""
        return replace(
            self,
            natural=(natural := self.natural.with_mean(mean)),
            mean=_interrupted_moment(natural, self.places, self.rest, 1),
        )


@lru_cache(maxsize=256)
def interrupted(lengths: ResponseLengths, first: float, last: float) -> ResponseLengths:
    """Return what lengths become when responses are interrupted between two shares of the cap."""
    width = (last - first) / _PLACES
    places = tuple(lengths.cap * (first + width * (place + 0.5)) for place in range(_PLACES))
    if not lengths.longer_than(places[0]):
        return lengths
    rest = REST_SHARE * lengths.cap * (1 - last)
    mean = _interrupted_moment(lengths, places, rest, 1)
    return InterruptedLengths(mean, lengths.cap, lengths.spread, places, rest, lengths)


def _interrupted_moment(natural: ResponseLengths, places: tuple[float, ...], rest: float, order: int) -> float:
    """E[length^order], where what is longer than its place has the rest behind it."""
    return math.fsum(
        natural.moment_up_to(place, order) + natural.longer_than(place) * ((place + rest) ** order - place**order)
        for place in places
    ) / len(places)


@lru_cache(maxsize=4096)  # cells of a grid with as many rollouts share it
def _longest_of(lengths: ResponseLengths, draws: float, order: int) -> float:
    """E[longest^order] = ∫ (1 − F(ℓ)^draws) dℓ^order up to the cap."""

    def summed(power: float) -> float:
        parts = ((i + 1) ** order - i**order for i in range(_GRID))
        return lengths._step**order * math.fsum(
            part * (1 - f**power) for part, f in zip(parts, lengths._cumulative, strict=True)
        )

    # The grid's own error on one draw is taken out, so that one draw gives the mean exactly.
    correction = (lengths.mean if order == 1 else lengths.mean_square) - summed(1)
    return min(float(lengths.cap) ** order, summed(draws) + correction)
