"""Proposals: price the grid, rank it, share out the pilots, look at other budgets, and say what to mind."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from typing import Final

from budgets.cost import Z90
from budgets.errors import BudgetError, InputError
from budgets.memory import TIGHT_MEMORY, memory_share
from budgets.signal import BetaPassRates, signal_fraction
from planner.axes import LEARNING_RATE, format_axes, named_configuration, rounded_rate, with_rate, without
from planner.percent import percent
from planner.prior.draws import Weights
from planner.prior.studies import (
    FEWEST_SUPPORTED_UPDATES,
    HARMFUL_EPOCHS,
    HARMLESS_EPOCHS,
    LARGEST_STEP_ROLLOUTS,
    STUDIED_ROLLOUTS,
    logit,
    published_group,
)
from planner.proposals.challengers import usual_rows, with_champion
from planner.proposals.grid import PricedGrid, gaps_to, grounds, price_cells, standings
from planner.proposals.layouts import (
    deadline_of,
    layouts,
    on_gpus,
    require_whole,
    split_on,
    too_late,
    with_final_layout,
    with_layout,
)
from planner.proposals.pilots import FEWEST_FINAL_UPDATES, LEAST_SIGNAL, carries_signal
from planner.proposals.proposal import Candidate, ChampionPlan, OtherBudget, PriceSensitivity, Proposal, WhatIf
from planner.proposals.request import CellCost, Gap, GapToFirst, PricedCell, Request
from planner.proposals.split import ALIKE, BudgetSplit, BudgetSplitter, rounded_up, smallest
from planner.view import Champion


def spread_rates(between: tuple[float, float] | None, has_pilot: Sequence[bool]) -> list[float | None]:
    """Return a factor on the rule's rate for each candidate, None for all without a range to search.

    The first pilot has the rule's own rate, or what of the range is nearest to it; the others follow the sequence of
    van der Corput (1935) over the logarithm of the range, so that however many there are, they lie evenly in it. What
    has no pilot keeps the first one's until the search chooses.
    """
    if between is None:
        return [None] * len(has_pilot)
    from scipy.stats import qmc  # noqa: PLC0415 (half a second, for who searches a range)

    low, high = between
    rule = min(high, max(low, 1.0))
    _, *shares = qmc.Halton(1, scramble=False).random(max(1, sum(has_pilot)))[:, 0].tolist()
    others = (rounded_rate(low * math.exp(share * math.log(high / low)), between) for share in shares)
    piloted = chain([rule], others)
    return [next(piloted) if pilot else rule for pilot in has_pilot]


LEVEL_NOTE, USUAL_NOTE = "level with the first", "a usual choice"
STOPS_EARLY = "stops early"
LITTLE_SIGNAL = 0.3


def notes_on(cell: PricedCell, request: Request) -> tuple[str, ...]:
    """List what could go wrong with a cell, or makes its figures less certain."""
    allocation, notes = cell.allocation, []
    if allocation.update_steps < FEWEST_SUPPORTED_UPDATES:
        notes.append(f"few updates ({allocation.update_steps})")
    epochs = allocation.epochs(request.workload.prompt_set_size)
    if epochs > HARMFUL_EPOCHS:
        notes.append(f"far too many epochs ({epochs:,.0f})")
    elif epochs > HARMLESS_EPOCHS:
        notes.append(f"many epochs ({epochs:,.0f})")
    if allocation.update_steps < cell.affordable_steps:
        notes.append(f"{STOPS_EARLY} (at {epochs:,.3g} passes over the prompts)")
    if cell.signal_fraction < LITTLE_SIGNAL:
        notes.append(f"little signal ({percent(cell.signal_fraction)} of groups)")
    share = memory_share(request.workload, request.traits, request.hardware.gpu, cell.pilot_cost.placement.trainer_gpus)
    if share > TIGHT_MEMORY:
        notes.append(f"memory tight ({percent(share)})")
    largest = LARGEST_STEP_ROLLOUTS.get(request.difficulty)
    if largest is not None and allocation.rollouts_per_step > largest:
        notes.append(f"batch beyond the study ({largest:,})")
    if allocation.rollouts > STUDIED_ROLLOUTS[1]:
        notes.append(f"beyond the study ({allocation.rollouts:.1e} rollouts)")
    return tuple(notes)


def propose(request: Request) -> Proposal:
    """Price and rank every legal cell, choose pilots, and split the budget; BudgetError when it pays for no pilots."""
    question = with_champion(request)
    placed = with_final_layout(question)
    require_whole(placed)
    request, grid, split = split_on(placed)
    costs = grid.costs
    _require_signal(request, costs)
    if split is None:
        raise BudgetError(too_late(question) or _too_small(request, grid))
    request = request.with_pilots(fraction=split.fraction)
    pilot_gpu_hours = split.fraction * request.budget_gpu_hours
    money = request.budget_gpu_hours - pilot_gpu_hours
    within = request.within_hours
    final_gpu_hours = money if within is None else split.final_gpu_hours
    in_time = math.inf if within is None else request.hardware.gpus_per_trial * (within - split.pilot_wall_hours)
    candidates = tuple(_candidates(request, split, grid.prior.weights))
    return Proposal(
        request=request,
        pilot_gpu_hours=pilot_gpu_hours,
        final_gpu_hours=final_gpu_hours,
        candidates=candidates,
        outlooks=tuple(other_budgets(request, grid, split.fraction, in_time)),
        layouts=tuple(layouts(request, grid, split.run, split)),
        grounds=grounds(split.grid_rows, grid.prior),
        elsewhere=tuple(other_workloads(costs, split.ranked[0], final_gpu_hours)),
        pilot_wall_hours=split.pilot_wall_hours,
        doubt=doubt_of(grid, split, final_gpu_hours),
        deadline=deadline_of(question, split),
        champion=_champion_plan(request, candidates),
    )


def smallest_budget(request: Request, grid: PricedGrid) -> float:
    """Return the fewest GPU-hours, more than the request's, that can be split as it wants; two digits of them."""
    shares, fraction = BudgetSplitter(request, grid), request.pilot_fraction
    needed = rounded_up(smallest(lambda budget: shares.split(fraction, budget) is not None, request.budget_gpu_hours))
    while shares.split(fraction, needed) is None:  # a larger budget may have another first row, with a dearer pilot
        needed = rounded_up(1.02 * needed)
    return needed


def _require_signal(request: Request, costs: Sequence[CellCost]) -> None:
    """Refuse a workload on which hardly any group of any size would have differing rewards."""
    if sum(carries_signal(cell.signal_fraction) for cell in costs) >= 2:
        return
    best = max(costs, key=lambda cell: cell.signal_fraction)
    raise InputError(
        f"with an average pass rate of {request.workload.pass_rates.mean:.3g} at most "
        f"{percent(best.signal_fraction, 1)} of the groups carry signal (n = {best.rollouts_per_prompt}), and fewer "
        f"than two cells of the grid reach {percent(LEAST_SIGNAL)}: choose prompts with pass rates nearer to one half, "
        "or widen [grid]"
    )


def _champion_plan(request: Request, candidates: Sequence[Candidate]) -> ChampionPlan | None:
    """Return which candidate is the champion, and which are to challenge it; None where the grid is explored."""
    if request.champion is None:
        return None
    rows = {candidate.cell.configuration: candidate for candidate in candidates}
    row = rows[request.candidates[0]]
    usual = usual_rows([candidate.cell for candidate in candidates], request)
    return ChampionPlan(
        terms=Champion(
            candidates=request.candidates,
            total_gpu_hours=request.budget_gpu_hours,
            usual=tuple(usual),
            challenger_share=request.pilot_fraction,
        ),
        source=request.champion.source,
        row=row,
        usual=rows[usual[0]],
        look_gpu_hours=row.cell.pilot_cost.gpu_hours(row.pilot.steps),
        challengers=tuple(candidate for candidate in candidates if candidate.pilot.gpu_hours),
    )


def _candidates(request: Request, split: BudgetSplit, weights: Weights) -> Iterator[Candidate]:
    rule, pilots = request.learning_rate, [split.grants[cell.configuration] for cell in split.ranked]
    standing = standings(split.ranked, weights, request.usual)
    gaps: Sequence[Gap | None] = [None] * len(pilots)
    if request.champion is not None:
        gaps = gaps_to(split.ranked, split.run, weights)
    rates = spread_rates(request.learning_rate_range, [pilot.steps > 0 for pilot in pilots])
    rows = zip(split.ranked, pilots, standing, gaps, rates, strict=True)
    for rank, (cell, pilot, stands, gap, searched) in enumerate(rows, start=1):
        variant = cell.variant
        factor = variant.learning_rate_factor if searched is None else searched
        yield Candidate(
            rank=rank,
            cell=cell,
            pilot=pilot,
            learning_rate=factor * cell.allocation.learning_rate(rule.base, rule.base_rollouts),
            epochs=cell.allocation.epochs(variant.workload.prompt_set_size),
            notes=(*_standing_notes(stands, rank), *notes_on(cell, request.of(variant))),
            standing=stands,
            axes=variant.axes if searched is None else with_rate(variant.axes, searched),
            against_champion=gap,
        )


def _standing_notes(standing: GapToFirst, rank: int) -> Iterator[str]:
    if standing.level and rank > 1:
        yield LEVEL_NOTE
    if standing.usual:
        yield f"{USUAL_NOTE} ({standing.median:+.3f} against the first)" if rank > 1 else USUAL_NOTE


def _too_small(request: Request, grid: PricedGrid) -> str:
    rules, fraction, hardware = request.pilots, request.pilot_fraction, request.hardware
    needed = smallest_budget(request, grid)
    if request.champion is not None or not fraction:
        of = named_configuration(request.candidates[0]) if request.candidates else "any cell"
        return (
            f"{request.budget_gpu_hours:g} GPU-hours are too few for a run of {FEWEST_FINAL_UPDATES} updates of "
            f"{of}. The smallest budget that would do is {needed:,.10g} GPU-hours{_on_fewer_gpus(request)}"
        )
    cheapest = min(grid.costs, key=lambda cell: cell.pilot_cost.gpu_hours(rules.fewest_steps))
    steps = cheapest.pilot_cost.steps_for(request.budget_gpu_hours * fraction)
    axes = f", {format_axes(cheapest.variant.axes)}" if cheapest.variant.axes else ""
    return (
        f"{request.budget_gpu_hours:g} GPU-hours are too few for any comparison: two pilots of {rules.fewest_steps} "
        f"steps are the least, and the pilot part ({percent(fraction)}) buys {steps} steps of the cheapest, "
        f"n = {cheapest.rollouts_per_prompt}, B = {cheapest.prompts_per_batch}{axes}, on "
        f"{rules.gpus} {hardware.gpu.name}. The smallest budget that would do is {needed:,.10g} "
        f"GPU-hours{_on_fewer_gpus(request)}"
    )


def _on_fewer_gpus(request: Request) -> str:
    """Say what the smallest budget would be on the fewest GPUs per trial, which use them best."""
    hardware = request.hardware
    share = next((gpus for gpus in hardware.even_shares if gpus >= request.fewest_gpus), hardware.gpus)
    if share >= hardware.gpus_per_trial:
        return "; shorter responses or a smaller model lower it"
    narrow = with_layout(on_gpus(request, share).with_pilots(gpus=None))
    needed = smallest_budget(narrow, PricedGrid(price_cells(narrow)))
    return f", or {needed:,.10g} with --gpus-per-trial {share}"


OUTLOOK_FACTORS: Final = (0.25, 1.0, 4.0)
MORE_PROMPTS: Final = 10
OTHER_RATES: Final = (-1.5, 1.5)  # in log odds: from 0.45 to 0.15 and 0.79


def other_budgets(request: Request, grid: PricedGrid, share: float, most: float) -> Iterator[OtherBudget]:
    """Yield what smaller and larger budgets would be best spent on, with the same share for pilots.

    `most` are the GPU-hours that a final run can take by the deadline.
    """
    for factor in OUTLOOK_FACTORS:
        budget = factor * request.budget_gpu_hours
        best = next(iter(grid.ranked(min(most, budget * (1 - share)))), None)
        law = published_group(best.variant.workload.pass_rates.mean, best.allocation.rollouts) if best else None
        yield OtherBudget(factor, budget, best, law)


def other_workloads(costs: Sequence[CellCost], first: PricedCell, gpu_hours: float) -> Iterator[WhatIf]:
    """Yield what the same GPU-hours would be best spent on in other circumstances, at the same prices.

    That is the first row, unless another is expected to be ahead of it there by what can be told apart.
    """
    workload = costs[0].variant.workload
    prompts = MORE_PROMPTS * workload.prompt_set_size
    others = [(f"{prompts:,} prompts", replace(workload, prompt_set_size=prompts))]
    for odds in OTHER_RATES:
        rate = 1 / (1 + math.exp(-logit(workload.pass_rates.mean) - odds))
        others.append((f"a mean pass rate of {rate:.2g}", replace(workload, pass_rates=BetaPassRates(rate))))
    for change, other in others:
        variant = replace(costs[0].variant, workload=other)
        moved = [
            replace(cell, variant=variant, signal_fraction=signal_fraction(other.pass_rates, cell.rollouts_per_prompt))
            for cell in costs
            if cell.variant is costs[0].variant
        ]
        ranked = PricedGrid(moved, few_draws=True).ranked(gpu_hours)
        if ranked:
            enough = ranked[0].expected - ALIKE
            same_cells = (row for row in ranked if row.key == first.key and row.expected >= enough)
            yield WhatIf(change, next(same_cells, ranked[0]))


def doubt_of(grid: PricedGrid, split: BudgetSplit, gpu_hours: float) -> PriceSensitivity:
    """Rank the cells again at either end of the price's 90 % interval, of which all cells share the most.

    A price that is so many times as high is a budget that is so many times as small. A row stands firm while at either
    end nothing in its place would be expected to score higher, to what expectations can be told apart by.
    """
    ranked, run = split.grid_rows, split.run.configuration
    if split.run.variant.of_first_row:  # at another learning rate, with as many steps
        run = run._replace(axes=without(run.axes, LEARNING_RATE))
    factor = math.exp(Z90 * ranked[0].cost.log_sd)
    expensive, cheap = grid.ranked(gpu_hours / factor), grid.ranked(gpu_hours * factor)
    by_expensive, by_cheap = ({cell.configuration: cell for cell in end} for end in (expensive, cheap))

    def lost(place: int) -> float:
        """Return what the row falls short at the worse end of what would be in its place there."""
        configuration = ranked[place].configuration
        if configuration not in by_expensive:
            return math.inf
        ends = ((expensive, by_expensive), (cheap, by_cheap))
        return max(end[place].expected - by[configuration].expected for end, by in ends)

    return PriceSensitivity(
        fewest_steps=by_expensive[run].allocation.update_steps if run in by_expensive else 0,
        most_steps=by_cheap[run].allocation.update_steps,
        firm=sum(1 for _ in takewhile(lambda place: lost(place) <= ALIKE, range(len(expensive)))),
        lost=lost(0),
        first_if_dear=expensive[0].configuration if expensive else None,
        first_if_cheap=cheap[0].configuration,
    )
