"""How wide the next promise's interval is to be, by how the final runs that ended kept theirs; pure.

Each that ended says how far it lay from its promise, in halves of its interval. What is learnt is one factor on all
intervals: the scale of those misses, by Student's t with four degrees of freedom, so that a single collapse widens them
little, and with a prior worth ten final runs that the factor is 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.recommending.promise import Promise

PRIOR = 10.0  # final runs that a factor of 1 is worth
FREEDOM = 4.0  # of Student's t
# What takes a miss in halves of an interval of 90 % to the unit of the t: normal misses that such an interval holds as
# often as it says leave the factor at 1.
UNIT = 1.979358
LEAST, MOST = 0.8, 4.0
HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Kept:
    """What a final run reached against the interval of 90 % that was promised, which was scaled by a factor."""

    reached: float
    promised: float
    low: float
    high: float
    factor: float = 1.0

    @property
    def outside(self) -> bool:
        """Whether the interval did not hold it."""
        return not self.low <= self.reached <= self.high

    @property
    def miss(self) -> float:
        """How far it lay from the promise in halves of the interval, on its side, as it was before it was scaled.

        An interval that ends at the promise itself, as at a score of 1, counts by half of the whole.
        """
        off = self.reached - self.promised
        half = self.promised - self.low if off < 0 else self.high - self.promised
        half = half or (self.high - self.low) / 2
        return self.factor * off / half if off and half else 0.0


def factor_of(misses: Sequence[float]) -> float:
    """Return what intervals are to be scaled by; exactly 1 where nothing has ended.

    The most probable squared scale is where the mean of the squared misses, each weighed by how far out it lies, and of
    ten that fit, is the squared scale itself: they cross once, since the mean rises ever more slowly with it.
    """
    if not misses:
        return 1.0
    squares = [(UNIT * miss) ** 2 for miss in misses]
    low, high = LEAST**2, MOST**2
    for _ in range(HALVINGS):
        square = (low + high) / 2
        weighed = sum((FREEDOM + 1) * each / (FREEDOM + each / square) for each in squares)
        if (PRIOR + weighed) / (PRIOR + len(squares)) > square:
            low = square
        else:
            high = square
    return float(((low + high) / 2) ** 0.5)


@dataclass(frozen=True)
class Width:
    """What the final runs that have ended say of the width of a promise."""

    ended: tuple[Kept, ...] = ()

    @cached_property
    def factor(self) -> float:
        """What the interval is scaled by."""
        return factor_of([each.miss for each in self.ended])

    @property
    def seen(self) -> dict[str, float]:
        """The factor and what it rests on, as plain data."""
        outside = sum(each.outside for each in self.ended)
        return {"factor": self.factor, "finals": len(self.ended), "outside": outside}

    @property
    def said(self) -> str | None:
        """The same in words; None where nothing has ended."""
        if not self.ended:
            return None
        count, outside = len(self.ended), sum(each.outside for each in self.ended)
        runs = "the one final run" if count == 1 else f"{count} final runs"
        those = (
            f"which ended {'outside' if outside else 'inside'} its own"
            if count == 1
            else (f"of which {outside or 'none'} ended outside {'its' if outside == 1 else 'their'} own")
        )
        return f"the promised interval is × {self.factor:.2f}, by {runs} of this database, {those}"

    def scaled(self, promise: "Promise") -> "Promise":
        """Return a promise with its intervals scaled about what is expected, within [0, 1]; itself by a factor of 1."""
        if self.factor == 1:
            return promise
        band = tuple((share, score, *self._scaled(score, low, high)) for share, score, low, high in promise.band)
        low, high = band[-1][2:]
        return replace(promise, end=replace(promise.end, low=low, high=high), band=band)

    def _scaled(self, score: float, low: float, high: float) -> tuple[float, float]:
        return max(0.0, score - self.factor * (score - low)), min(1.0, score + self.factor * (high - score))


def factor_left(factor: float, share_left: float) -> float:
    """Return the factor of a forecast under way: all of it at the launch, and none of it where nothing is left."""
    return 1.0 + (factor - 1.0) * min(1.0, max(0.0, share_left))
