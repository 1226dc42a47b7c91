"""What the interval of the price means for the answer: steps at either end, and what of the ranking depends on it."""

import math
from collections.abc import Sequence
from itertools import takewhile

from budgets.cost import Z90
from planner.proposals.grid import PricedGrid
from planner.proposals.proposal import Doubt
from planner.proposals.request import PricedCell
from planner.proposals.sharing import ALIKE


def doubt_of(grid: PricedGrid, ranked: Sequence[PricedCell], gpu_hours: float) -> Doubt:
    """Rank the cells again at either end of the price's 90 % interval, of which all cells share the most.

    A price that is so many times as high is a budget that is so many times as small. A row stands firm while at either
    end nothing in its place would be expected to score higher, to what expectations can be told apart by.
    """
    factor = math.exp(Z90 * ranked[0].cost.log_sd)
    dear, cheap = grid.ranked(gpu_hours / factor), grid.ranked(gpu_hours * factor)
    by_dear, by_cheap = ({each.configuration: each for each in end} for end in (dear, cheap))

    def lost(place: int) -> float:
        """Return what the row falls short at the worse end of what would be in its place there."""
        own = ranked[place].configuration
        if own not in by_dear:
            return math.inf
        ends = ((dear, by_dear), (cheap, by_cheap))
        return max(end[place].expected_score.median - by[own].expected_score.median for end, by in ends)

    first = ranked[0].configuration
    return Doubt(
        fewest_steps=by_dear[first].allocation.update_steps if first in by_dear else 0,
        most_steps=by_cheap[first].allocation.update_steps,
        firm=sum(1 for _ in takewhile(lambda place: lost(place) <= ALIKE, range(len(dear)))),
        lost=lost(0),
        first_if_dear=dear[0].configuration if dear else None,
        first_if_cheap=cheap[0].configuration,
    )
