"""A budget split between pilots, or challengers, and the final run: what each row is granted, and what is left."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from budgets.hardware import Hardware
from planner.proposals.challengers import grant_looks
from planner.proposals.grid import PricedGrid
from planner.proposals.pilots import FEWEST_FINAL_UPDATES, grant_pilots
from planner.proposals.request import PilotGrant, PricedCell, Request
from planner.view import Configuration

ALIKE: Final = 0.002  # in score: what two rows, or two layouts, are not told apart by
HALVINGS: Final = 5  # in the search for the smallest budget, or the earliest deadline, that does


@dataclass(frozen=True, slots=True)
class BudgetSplit:
    """The cells as the final part of a budget buys them, what its pilots are granted, and what to expect of both."""

    fraction: float
    ranked: list[PricedCell]
    grants: dict[Configuration, PilotGrant]
    final_gpu_hours: float
    pilot_wall_hours: float
    run: PricedCell  # what the final run is of, as far as is known: the champion, or the first row

    @property
    def score(self) -> float:
        """The expected score of that run."""
        return self.run.expected

    @property
    def grid_rows(self) -> list[PricedCell]:
        """The cells at the rule's learning rate."""
        return [cell for cell in self.ranked if not cell.variant.of_first_row]

    @property
    def longest_pilot(self) -> float:
        """How long the longest pilot takes, in parts of the final run's time."""
        pilots = {cell.configuration: cell.pilot_cost.placement.gpus for cell in self.ranked}
        hours = [grant.gpu_hours / pilots[name] for name, grant in self.grants.items() if name in pilots]
        final = self.final_gpu_hours / self.run.cost.placement.gpus
        return max(hours, default=0.0) / final

    @property
    def wall_hours(self) -> float:
        """Hours until the final run would end, the pilots before it."""
        return self.pilot_wall_hours + self.run.gpu_hours / self.run.cost.placement.gpus


class BudgetSplitter:
    """A request's budget, split in every way."""

    def __init__(self, request: Request, grid: PricedGrid) -> None:
        self._request, self._grid = request, grid

    def split(self, fraction: float, budget: float | None = None) -> BudgetSplit | None:
        """Split the budget, or another; None where that pays for too few pilots, or without any for no run."""
        budget = self._request.budget_gpu_hours if budget is None else budget
        rules, validation = self._request.pilots, self._request.workload.validation
        money = (1 - fraction) * budget
        ranked = self._grid.ranked(self._in_time(money, 0.0))
        if not ranked:
            return None
        request, tried = self._request, ranked[0].configuration
        if request.champion is not None:  # at the rule's learning rate
            tried = Configuration(*request.champion.sizes, request.all_variants[0].axes)
        elif not fraction or rules.cells == "all":
            request = replace(request, other_rates=(), other_recipes=())
        ranked = self._grid.with_neighbours(ranked, tried, request)
        if request.champion is None:
            grants = grant_pilots(ranked, self._grid.prior.weights, fraction * budget, rules, validation)
        else:
            grants = grant_looks(ranked, self._grid.prior.weights, fraction * budget, request)
        took = pilot_wall_hours(grants.values(), self._request.pilot_hardware)
        if self._request.within_hours is not None:
            money = self._in_time(money, took)
            ranked = self._grid.with_neighbours(self._grid.ranked(money), tried, request)
            grants = {cell.configuration: grants[cell.configuration] for cell in ranked}
        if request.champion is not None:
            name = next(iter(request.candidates), None)
            champion = next(
                (cell for cell in ranked if cell.configuration == name), None
            )  # None: it buys no step of it
            if champion is None or champion.affordable_steps < FEWEST_FINAL_UPDATES:
                return None
            return BudgetSplit(fraction, ranked, grants, money, took, champion)
        if fraction and sum(grant.steps > 0 for grant in grants.values()) < 2:
            return None  # one pilot compares nothing
        ranked = [row for row in ranked if not row.variant.of_first_row or grants[row.configuration].steps]
        if not any(cell.affordable_steps >= FEWEST_FINAL_UPDATES for cell in ranked):
            return None
        return BudgetSplit(fraction, ranked, grants, money, took, ranked[0])

    def _in_time(self, gpu_hours: float, pilot_wall_hours: float) -> float:
        """Return what of the final run's GPU-hours its GPUs can take by the deadline."""
        within, gpus = self._request.within_hours, self._request.hardware.gpus_per_trial
        return gpu_hours if within is None else max(0.0, min(gpu_hours, gpus * (within - pilot_wall_hours)))


def pilot_wall_hours(grants: Iterable[PilotGrant], hardware: Hardware) -> float:
    """Return the hours that pilots take which run side by side."""
    durations = [grant.gpu_hours for grant in grants if grant.gpu_hours]
    if not durations:
        return 0.0
    return side_by_side(durations, hardware.parallel_trials) / hardware.gpus_per_trial


def side_by_side(durations: Sequence[float], at_once: int) -> float:
    """Return how long runs take together, some at once: never less than the longest."""
    return max(math.fsum(durations) / min(at_once, len(durations)), *durations)


def rounded_up(gpu_hours: float) -> float:
    """Round up to two significant digits, so that the figure can be typed and still suffices."""
    unit = 10.0 ** (math.floor(math.log10(gpu_hours)) - 1)
    return round(math.ceil(gpu_hours / unit) * unit, 12)


def smallest(does: Callable[[float], bool], least: float) -> float:
    """Return about the smallest number that does, from a number on that may not."""
    low = high = least
    while not does(high):
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if does(middle) else (middle, high)
    return high
