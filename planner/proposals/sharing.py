"""The share of the budget that is for pilots: the smallest whose final run is expected to end as high as any's."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from budgets.hardware import Hardware
from planner.proposals.grid import PricedGrid
from planner.proposals.pilots import FEWEST_FINAL_UPDATES, grant_pilots
from planner.proposals.proposal import Sharing
from planner.proposals.request import LEAST_GAIN, PilotGrant, PricedCell, Request
from planner.proposals.worth import score_after_pilots
from planner.view import Configuration

SHARES: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
ALIKE: Final = 0.002  # in what is expected of shares, which is a mean of draws: it cannot tell them better apart
FIRST_TO_PAY: Final = (0.1, 0.15)  # where the smallest budget is sought at which pilots pay
FARTHER, STEPS, HALVINGS = 4, 6, 3  # times the budget, how often, and how finely between, in that search


@dataclass(frozen=True, slots=True)
class Split:
    """The cells as the final part of a budget buys them, what its pilots are granted, and what to expect of both."""

    fraction: float
    ranked: list[PricedCell]
    grants: dict[Configuration, PilotGrant]
    score: float
    final_gpu_hours: float
    pilot_wall_hours: float

    @property
    def wall_hours(self) -> float:
        """Hours until the first cell's final run would end, the pilots before it."""
        return self.pilot_wall_hours + self.ranked[0].gpu_hours / self.ranked[0].cost.placement.gpus


class Shares:
    """A request's budget, split in every way."""

    def __init__(self, request: Request, grid: PricedGrid) -> None:
        self._request, self._grid = request, grid
        self._weights = tuple(grid.prior.weights.tolist())

    def split(self, fraction: float, budget: float | None = None) -> Split | None:
        """Split the budget, or another; None where that pays for no comparison, or without pilots for no run."""
        budget = self._request.budget_gpu_hours if budget is None else budget
        rules, validation = self._request.pilots, self._request.workload.validation
        left = (1 - fraction) * budget
        ranked = self._grid.ranked(self._in_time(left, 0.0))
        grants = grant_pilots(ranked, self._weights, fraction * budget, rules, validation)
        took = pilot_wall_hours(grants.values(), self._request.pilot_hardware)
        if self._request.within_hours is not None:
            left = self._in_time(left, took)
            ranked = self._grid.ranked(left)
            grants = {cell.configuration: grants[cell.configuration] for cell in ranked}
        if fraction and sum(grant.steps > 0 for grant in grants.values()) < 2:
            return None
        if not any(cell.affordable_steps >= FEWEST_FINAL_UPDATES for cell in ranked):
            return None
        score = score_after_pilots(ranked, grants, self._weights)
        return Split(fraction, ranked, grants, score, left, took)

    def _in_time(self, gpu_hours: float, pilot_wall_hours: float) -> float:
        """Return what of the final run's GPU-hours its GPUs can take by the deadline."""
        within, gpus = self._request.within_hours, self._request.hardware.gpus_per_trial
        return gpu_hours if within is None else max(0.0, min(gpu_hours, gpus * (within - pilot_wall_hours)))

    def decided(self) -> tuple[Split, Sharing] | None:
        """Return the split that is given, or else the best one, and what it is worth; None where there is none."""
        rules = self._request.pilots
        none = self.split(0.0)
        given = None if rules.fraction is None else none if rules.fraction == 0 else self.split(rules.fraction)
        if none is None or (rules.fraction is not None and given is None):
            return None
        if given is not None and given.score - none.score >= LEAST_GAIN:
            return given, _told(given, none, given, given=True)
        piloted = self._piloted(SHARES)
        if given is None and not piloted:
            return None
        pays = _smallest_of_the_best(piloted, none)
        best = pays if pays.score - none.score >= LEAST_GAIN else none
        counts = given or (pays if self._request.asks_for_pilots else best)
        pays_from = None if best.fraction else self._pays_from()
        return counts, _told(counts, none, pays, given=given is not None, pays_from=pays_from)

    def _piloted(self, fractions: Sequence[float], budget: float | None = None) -> list[Split]:
        splits = (self.split(fraction, budget) for fraction in fractions)
        return [split for split in splits if split is not None]

    def _pays_from(self) -> float | None:
        """Return about the smallest budget at which pilots are expected to pay, when they do not at the request's."""
        low = self._request.budget_gpu_hours
        for _ in range(STEPS):
            if self._pay_at(FARTHER * low):
                break
            low *= FARTHER
        else:
            return None
        high = FARTHER * low
        for _ in range(HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self._pay_at(middle) else (middle, high)
        return rounded_up(high)

    def _pay_at(self, budget: float) -> bool:
        none = self.split(0.0, budget)
        return none is not None and any(
            split.score - none.score >= LEAST_GAIN for split in self._piloted(FIRST_TO_PAY, budget)
        )


def pilot_wall_hours(grants: Iterable[PilotGrant], hardware: Hardware) -> float:
    """Return the hours that pilots take which run side by side."""
    taken = [grant.gpu_hours for grant in grants if grant.steps]
    if not taken:
        return 0.0
    at_once = min(hardware.parallel_trials, len(taken))
    return max(math.fsum(taken) / at_once, *taken) / hardware.gpus_per_trial


def _smallest_of_the_best(piloted: Sequence[Split], none: Split) -> Split:
    """Return the first of the rising shares that is not told from the best of them, but pays if that does."""
    top = max((split.score for split in piloted), default=none.score)
    enough = max(top - ALIKE, min(top, none.score + LEAST_GAIN))
    return next((split for split in piloted if split.score >= enough), none)


def _told(split: Split, none: Split, best: Split, *, given: bool, pays_from: float | None = None) -> Sharing:
    return Sharing(split.fraction, given, split.score, none.score, best.fraction, best.score, pays_from)


def rounded_up(gpu_hours: float) -> float:
    """Round up to two significant digits, so that the figure can be typed and still suffices."""
    unit = 10.0 ** (math.floor(math.log10(gpu_hours)) - 1)
    return math.ceil(gpu_hours / unit) * unit
