"""The share of the budget that is for pilots: the smallest that is worth as much as any, what it costs taken off."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from budgets.hardware import Hardware
from planner.axes import LEARNING_RATE, RECIPE, without
from planner.prior.rates import at_rate, of_its_own
from planner.prior.studies import Values
from planner.prior.value import ObservedPilot, Worth, worth_of
from planner.proposals.challengers import grant_looks
from planner.proposals.grid import PricedGrid
from planner.proposals.pilots import FEWEST_FINAL_UPDATES, grant_pilots, least_pilot_hours
from planner.proposals.proposal import PilotShare
from planner.proposals.request import PilotGrant, PricedCell, Request
from planner.view import Configuration

SHARES: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
ALIKE: Final = 0.002  # in score: what two rows, or two layouts, are not told apart by
HALVINGS: Final = 5  # in the search for the smallest budget, or the earliest deadline, that does
MOST_VALIDATIONS: Final = 12  # validations of a pilot that its worth is reckoned from; more of them lie nearer together


@dataclass(frozen=True, slots=True)
class BudgetSplit:
    """The cells as the final part of a budget buys them, what its pilots are granted, and what to expect of both."""

    fraction: float
    ranked: list[PricedCell]
    grants: dict[Configuration, PilotGrant]
    worth: Worth  # of what the pilots show
    score: float  # of the final run that is chosen after them
    final_gpu_hours: float
    pilot_wall_hours: float
    run: PricedCell  # what the final run is of, as far as is known: the champion, or the first row

    @property
    def grid_rows(self) -> list[PricedCell]:
        """The cells at the rule's learning rate."""
        return [cell for cell in self.ranked if not cell.variant.of_first_row]

    @property
    def wall_hours(self) -> float:
        """Hours until the final run would end, the pilots before it."""
        return self.pilot_wall_hours + self.run.gpu_hours / self.run.cost.placement.gpus


Shared = tuple[list[PricedCell], dict[Configuration, PilotGrant], float, float]


class BudgetSplitter:
    """A request's budget, split in every way."""

    def __init__(self, request: Request, grid: PricedGrid) -> None:
        self._request, self._grid = request, grid

    def split(self, fraction: float, most_pilots: int | None = None) -> BudgetSplit | None:
        """Split the budget; None where that pays for too few pilots, or without any for no run."""
        shared = self._shared(fraction, self._request.budget_gpu_hours, most_pilots)
        if shared is None:
            return None
        ranked, grants, left, took = shared
        if (champion := self._champion(ranked)) is not None:
            return BudgetSplit(fraction, ranked, grants, Worth(0.0, 0.0), champion.expected, left, took, champion)
        weights = self._grid.prior.weights
        longer = [self._gone_on(cell, grants[cell.configuration].steps)[:, np.newaxis] for cell in ranked]
        columns = [self._by_variant(cell, scores)[:, 0] for cell, scores in zip(ranked, longer, strict=True)]
        finals = np.stack(columns, axis=1)
        pilots = [
            self._observe_pilot(place, cell, steps)
            for place, cell in enumerate(ranked)
            if (steps := grants[cell.configuration].steps)
        ]
        worth = worth_of(finals, weights, pilots, self._grid.prior.folds)
        best = float((weights @ finals).max())  # without the pilots
        return BudgetSplit(fraction, ranked, grants, worth, best + worth.gain, left, took, ranked[0])

    def does(self, fraction: float, budget: float) -> bool:
        """Say whether such a budget can be split so."""
        return self._shared(fraction, budget, None) is not None

    def _shared(self, fraction: float, budget: float, most_pilots: int | None) -> Shared | None:
        rules, validation = self._request.pilots, self._request.workload.validation
        if most_pilots is not None:
            rules = rules.model_copy(update={"most_pilots": most_pilots})
        left = (1 - fraction) * budget
        ranked = self._grid.ranked(self._in_time(left, 0.0))
        if not ranked:
            return None
        request, tried = self._request, ranked[0].configuration
        if request.champion is not None:  # at the rule's learning rate
            tried = Configuration(*request.champion.sizes, request.all_variants[0].axes)
        if not fraction or rules.cells == "all":
            request = replace(request, other_rates=(), other_recipes=())
        ranked = self._grid.with_neighbours(ranked, tried, request)
        if request.champion is None:
            grants = grant_pilots(ranked, self._grid.prior.weights, fraction * budget, rules, validation)
        else:
            grants = grant_looks(ranked, self._grid.prior.weights, fraction * budget, request)
        took = pilot_wall_hours(grants.values(), self._request.pilot_hardware)
        if self._request.within_hours is not None:
            left = self._in_time(left, took)
            ranked = self._grid.with_neighbours(self._grid.ranked(left), tried, request)
            grants = {cell.configuration: grants[cell.configuration] for cell in ranked}
        if request.champion is not None:
            champion = self._champion(ranked)
            enough = champion is not None and champion.affordable_steps >= FEWEST_FINAL_UPDATES
            return (ranked, grants, left, took) if enough else None
        if fraction and sum(grant.steps > 0 for grant in grants.values()) < 2:
            # One pilot tells nothing, unless it is the first row's, where nothing has to be compared.
            first = bool(ranked) and grants[ranked[0].configuration].steps > 0
            if not first or self._request.asks_for_pilots:
                return None
        ranked = [each for each in ranked if not each.variant.of_first_row or grants[each.configuration].steps]
        if not any(cell.affordable_steps >= FEWEST_FINAL_UPDATES for cell in ranked):
            return None
        return ranked, grants, left, took

    def _champion(self, ranked: Iterable[PricedCell]) -> PricedCell | None:
        """Return the champion's row; None where the grid is explored, or the budget buys no step of it."""
        name = next(iter(self._request.candidates), None)
        return next((cell for cell in ranked if cell.configuration == name), None)

    def _gone_on(self, cell: PricedCell, pilot_steps: int) -> Values:
        """Return the scores of a cell's final run in every draw, which goes on from its pilot on the same GPUs."""
        if not pilot_steps or not self._request.continues_pilot:
            return cell.scores
        steps = pilot_steps + cell.affordable_steps
        scores = self._grid.prior.expected([self._grid.row(cell)], [steps]).scores[:, 0]
        return at_rate(scores, cell.base, cell.variant.learning_rate_factor)

    def _observe_pilot(self, place: int, cell: PricedCell, steps: int) -> ObservedPilot:
        """Return what a pilot of so many steps is scored by; of many validations some, each of as many more answers."""
        validation = self._request.workload.validation
        every = validation.steps_between(cell.allocation.rollouts_per_step)
        scored = np.arange(every, steps + 1, every) if steps >= every else np.array([steps])
        thinned = scored[:: max(1, math.ceil(len(scored) / MOST_VALIDATIONS))]
        answers = round(validation.rollouts * len(scored) / len(thinned))
        scores = self._grid.prior.at([self._grid.row(cell)] * len(thinned), thinned.astype(float))
        shares = np.minimum(1, thinned / cell.allocation.update_steps)
        if cell.variant.learning_rate_factor != 1:
            scores = at_rate(scores, cell.base, cell.variant.learning_rate_factor, shares)
        return ObservedPilot(place, self._by_variant(cell, scores, shares), cell.base, answers)

    def _by_variant(self, cell: PricedCell, scores: Values, shares: float | Values = 1.0) -> Values:
        """Return scores in all draws with what a recipe or a model has of its own."""
        kinds = list(dict.fromkeys(without(each.axes, LEARNING_RATE) for each in self._request.all_variants))
        kinds += [((RECIPE, each.name),) for each in self._request.other_recipes]
        if len(kinds) == 1:
            return scores
        number = kinds.index(without(cell.variant.axes, LEARNING_RATE))
        return of_its_own(scores, cell.base, self._grid.prior.weights, number, shares)

    def _in_time(self, gpu_hours: float, pilot_wall_hours: float) -> float:
        """Return what of the final run's GPU-hours its GPUs can take by the deadline."""
        within, gpus = self._request.within_hours, self._request.hardware.gpus_per_trial
        return gpu_hours if within is None else max(0.0, min(gpu_hours, gpus * (within - pilot_wall_hours)))

    def decided(self) -> tuple[BudgetSplit, PilotShare | None] | None:
        """Return the split that is given, or else the best one, and what it is worth; None where there is none.

        A plan has no pilots where it is told so, or where the budget pays for none. A champion's share is given.
        """
        if self._request.champion is not None:
            split = self.split(self._request.pilots.fraction or 0.0)
            return None if split is None else (split, None)
        fraction, none = self._request.pilots.fraction, self.split(0.0)
        given = none if fraction == 0 else None if fraction is None else self.split(fraction)
        if none is None or (fraction is not None and given is None):
            return None
        piloted = [split for share in SHARES if (split := self.split(share)) is not None]
        if not self._request.asks_for_pilots and self._request.within_hours is None:
            # The first row's pilot would go on as the final run; with a deadline, which row is the first depends on the
            # time that the pilots take.
            piloted = [split for split in piloted if split.grants[split.ranked[0].configuration].steps > 0]
        top = max(piloted, key=lambda split: split.score, default=None)
        alike = [] if top is None else [split for split in piloted if split.score >= top.score - top.worth.error]
        best = min(alike, key=lambda split: split.fraction, default=None)  # within a standard error of the best
        if not self._request.asks_for_pilots:
            # One pilot compares nothing, but is cheap; the smallest budgets and the nearest deadlines have none.
            enough = none.score - ALIKE
            best = next((each for each in (best, self._smoke(none)) if each and each.score >= enough), none)
        if best is None:
            if given is None:
                return None
            best = none
        split = given or best
        return split, PilotShare(
            fraction=split.fraction,
            given=given is not None,
            expected_score=split.score,
            score_without=none.score,
            worth=split.worth.gain,
            error=split.worth.error,
            best_fraction=best.fraction,
            best_score=best.score,
        )

    def _smoke(self, none: BudgetSplit) -> BudgetSplit | None:
        """Return the split for a pilot of the first row alone, the first steps of what would be the final run."""
        least = least_pilot_hours(none.ranked[0], self._request.pilots) / self._request.budget_gpu_hours
        return self.split(rounded_up(least), most_pilots=1) if rounded_up(least) < max(SHARES) else None


def pilot_wall_hours(grants: Iterable[PilotGrant], hardware: Hardware) -> float:
    """Return the hours that pilots take which run side by side."""
    taken = [grant.gpu_hours for grant in grants if grant.gpu_hours]
    if not taken:
        return 0.0
    return side_by_side(taken, hardware.parallel_trials) / hardware.gpus_per_trial


def side_by_side(taken: Sequence[float], at_once: int) -> float:
    """Return how long runs take together, some at once: never less than the longest."""
    return max(math.fsum(taken) / min(at_once, len(taken)), *taken)


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
