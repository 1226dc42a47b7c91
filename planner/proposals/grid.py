"""The cells (n, B) that are legal, each priced, ranked for a number of GPU-hours, and how they stand to each other."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from budgets.allocation import Allocation
from budgets.cost import Z90, step_cost
from budgets.errors import InputError
from budgets.signal import signal_fraction
from budgets.workload import RecipeTraits
from planner.axes import RECIPE, with_rate
from planner.prior.draws import (
    LEAST_CHANCE_AHEAD,
    Expected,
    PriorDraws,
    Weights,
    chances_ahead,
    differences,
    distance,
    noise_between,
    prior_draws,
)
from planner.prior.laws import Circumstances
from planner.prior.plan_prior import at_rate
from planner.prior.studies import STUDIES, Values
from planner.proposals.request import CellCost, Gap, GapToFirst, PricedCell, Request, StudyWeight, Variant
from planner.view import Configuration


def legal_cells(request: Request) -> list[tuple[int, int]]:
    """List the powers of two within the grid's bounds that the prompt set can fill a batch from, and usual choices.

    The champion is always among them. A usual choice that is made of other numbers, such as n = 5, is a row of its own:
    somebody runs it today.
    """
    bounds = request.grid
    prompts = request.workload.prompt_set_size
    cells = [
        (n, B)
        for n in _powers_of_two(bounds.fewest_rollouts_per_prompt, bounds.most_rollouts_per_prompt)
        for B in _powers_of_two(bounds.fewest_prompts_per_batch, min(bounds.most_prompts_per_batch, prompts))
        if bounds.fewest_rollouts_per_step <= n * B <= bounds.most_rollouts_per_step
    ]
    if not cells:
        raise InputError(
            f"no power of two lies within the grid's bounds: {bounds.fewest_rollouts_per_prompt}–"
            f"{bounds.most_rollouts_per_prompt} rollouts × {bounds.fewest_prompts_per_batch}–"
            f"{bounds.most_prompts_per_batch} prompts, {bounds.fewest_rollouts_per_step}–"
            f"{bounds.most_rollouts_per_step} rollouts a step, {prompts} prompts in the set; widen [grid], "
            "or set workload.prompt_set_size if there are more prompts"
        )
    between = [(n, B) for n, B in request.usual if max(n.bit_count(), B.bit_count()) > 1 and prompts >= B]
    champion = [] if request.champion is None else [request.champion.sizes]
    return list(dict.fromkeys([*cells, *between, *champion]))


def price_cells(request: Request) -> list[CellCost]:
    """Price a step of every legal cell, for each variant; those that differ in the learning rate alone cost alike."""
    priced: dict[tuple[int, int, int], list[CellCost]] = {}
    costs: list[CellCost] = []
    for variant in request.all_variants:
        alike = priced.setdefault((id(variant.workload), id(variant.traits), id(variant.coefficients)), [])
        if not alike:
            alike += [price_cell(request, variant, n, B) for n, B in legal_cells(request)]
        costs += [replace(cell, variant=variant) for cell in alike]
    return costs


def price_cell(request: Request, variant: Variant, n: int, B: int) -> CellCost:
    """Price the cell on both layouts: of an asynchronous recipe the final run is made of parts like a pilot."""
    hardware, pilots = request.hardware, request.pilot_hardware
    terms = (variant.traits, n, B, variant.coefficients)
    cost = step_cost(variant.workload, hardware, *terms, parts=hardware.gpus_per_trial // pilots.gpus_per_trial)
    placement = cost.placement.on(pilots.gpus_per_trial)
    same = pilots == hardware
    return CellCost(
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        cost=cost,
        pilot_cost=cost if same else step_cost(variant.workload, pilots, *terms, placement=placement),
        signal_fraction=signal_fraction(variant.workload.pass_rates, n),
        variant=variant,
    )


class PricedGrid:
    """The cells of a request, priced, with what is expected of each: ranked for any number of GPU-hours."""

    def __init__(self, costs: Sequence[CellCost], *, few_draws: bool = False) -> None:
        """Tabulate what is expected; cells that differ in nothing that matters to it share the work."""
        self.costs = costs
        runs = [cell.run for cell in costs]
        distinct = list(dict.fromkeys(runs))
        self.prior = prior_draws(tuple(distinct), few=few_draws)
        places = {run: place for place, run in enumerate(distinct)}
        self._rows = [places[run] for run in runs]
        self._places = {(cell.key, cell.variant.axes): place for place, cell in enumerate(costs)}

    def after(self, steps: Sequence[int]) -> Expected:
        """Return what is expected of every cell after so many steps of each, or of the best before that."""
        return self.prior.expected(self._rows, steps)

    def row(self, cell: PricedCell) -> int:
        """Return the place of a cell's run, at the rule's rate, in the prior's draws."""
        return self._rows[self._places[cell.key, () if cell.variant.of_first_row else cell.variant.axes]]

    def ranked(self, gpu_hours: float) -> list[PricedCell]:
        """Return the cells that the GPU-hours buy at least one step of, best expected score first."""
        steps = [cell.cost.steps_for(gpu_hours) for cell in self.costs]
        bought = [index for index, count in enumerate(steps) if count >= 1]
        if not bought:
            return []
        expectations = self.prior.expected([self._rows[index] for index in bought], [steps[index] for index in bought])
        cells = [
            self._cell(self.costs[index], expectations.steps[column], steps[index], expectations.scores[:, column])
            for column, index in enumerate(bought)
        ]
        return sorted(cells, key=_in_order)

    def _cell(self, cell: CellCost, worth_running: int, affordable: int, scores: Values) -> PricedCell:
        allocation = Allocation(cell.rollouts_per_prompt, cell.prompts_per_batch, worth_running)
        at = PricedCell(
            *cell.key,
            cell.cost,
            cell.pilot_cost,
            cell.signal_fraction,
            cell.variant,
            allocation=allocation,
            expected=float(self.prior.weights @ scores),
            affordable_steps=affordable,
            scores=scores,
            weights=self.prior.weights,
        )
        return at if cell.variant.learning_rate_factor == 1 else self._at_rate(at, cell.variant)

    def with_neighbours(self, ranked: Sequence[PricedCell], of: Configuration, request: Request) -> list[PricedCell]:
        """Return ranked cells with one of them at other learning rates, and with other recipes, too."""
        cell = next((neighbour for neighbour in ranked if neighbour.configuration == of), None)
        if cell is None:
            return list(ranked)
        others = [
            self._at_rate(cell, replace(cell.variant, axes=axes, learning_rate_factor=factor, of_first_row=True))
            for factor in request.other_rates
            for axes in (with_rate(cell.variant.axes, factor),)
        ]
        others += [
            neighbour for traits in request.other_recipes if (neighbour := self._with_recipe(cell, traits, request))
        ]
        return sorted([*ranked, *others], key=_in_order)

    def _with_recipe(self, cell: PricedCell, traits: RecipeTraits, request: Request) -> PricedCell | None:
        """Return a cell as another recipe trains it, in no more updates; None where the prior has no such run.

        Of a recipe nothing is known but its price, and a cheaper one has no more updates: that would rank it by price.
        """
        variant = replace(cell.variant, axes=((RECIPE, traits.name),), traits=traits, of_first_row=True)
        cost = price_cell(request, variant, *cell.key)
        at = self.costs[self._places[cell.key, cell.variant.axes]]
        steps = min(cell.affordable_steps, cost.cost.steps_for(at.cost.gpu_hours(cell.affordable_steps)))
        if steps < 1 or cost.run != at.run:
            return None
        expectations = self.prior.expected([self.row(cell)], [steps])
        return self._cell(cost, expectations.steps[0], steps, expectations.scores[:, 0])

    def _at_rate(self, cell: PricedCell, variant: Variant) -> PricedCell:
        scores = at_rate(cell.scores, cell.base, variant.learning_rate_factor)
        return replace(cell, expected=float(self.prior.weights @ scores), scores=scores, variant=variant)

    def useful_steps(self, cell: PricedCell, steps: int) -> int:
        """Return how many of so many steps of a cell are expected to be worth running."""
        return 0 if steps < 1 else self.prior.expected([self.row(cell)], [steps]).steps[0]


def _in_order(cell: PricedCell) -> tuple[float, tuple[int, int]]:
    """Return by what cells are ranked; what is equal in all this stays in the order of the request."""
    return -cell.expected, cell.key


def _powers_of_two(low: int, high: int) -> list[int]:
    return [2**power for power in range(high.bit_length()) if low <= 2**power <= high]


def standings(ranked: Sequence[PricedCell], weights: Weights, usual: Sequence[tuple[int, int]]) -> list[GapToFirst]:
    """Return how each cell stands against the first, and of which usual choice it is the row, or the nearest to it."""
    first = ranked[0]
    nearest: dict[int, tuple[int, int]] = {}
    rows = [place for place, cell in enumerate(ranked) if not cell.variant.of_first_row]
    for usual_cell in reversed(usual):  # where one cell is the nearest to several, it stands for the first of them
        place = min(rows, key=lambda at: math.dist(np.log2(ranked[at].key), np.log2(usual_cell)))
        nearest[place] = usual_cell
    return [
        GapToFirst(gap.median, gap.low, gap.high, gap.chance >= LEAST_CHANCE_AHEAD, nearest.get(place))
        for place, gap in enumerate(gaps_to(ranked, first, weights))
    ]


def gaps_to(ranked: Sequence[PricedCell], other: PricedCell, weights: Weights) -> list[Gap]:
    """Return how each cell stands against another."""
    scores = np.stack([cell.scores for cell in ranked], axis=1)
    noise = noise_between(other.variant.workload.pass_rates.mean)
    means, sds = differences(scores, other.scores, weights, noise)
    chances = chances_ahead(scores, other.scores, weights, noise)
    rows = zip(means.tolist(), sds.tolist(), chances.tolist(), strict=True)
    return [Gap(mean, mean - Z90 * sd, mean + Z90 * sd, chance) for mean, sd, chance in rows]


def grounds(ranked: Sequence[PricedCell], prior: PriorDraws) -> tuple[StudyWeight, ...]:
    """Return each study with its weight, its distance, and the cell that would be first by it alone."""
    weights, scores = prior.by_study(np.stack([cell.scores for cell in ranked], axis=1))
    here = Circumstances.of(ranked[0].variant.workload)
    sources = []
    for study, weight, alone in zip(STUDIES, weights.tolist(), scores.argmax(axis=1).tolist(), strict=True):
        away = distance(study.studied, here) if study.studied is not None else None
        sources.append(StudyWeight(study.name, weight, away, *ranked[alone].key))
    return tuple(sorted(sources, key=attrgetter("weight"), reverse=True))
