"""Proposals: price the grid, rank it, share out the pilots, look at other budgets, and say what to mind."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from budgets.allocation import steps_for_budget
from budgets.errors import BudgetError, InputError
from budgets.memory import fewest_gpus, memory_share
from planner.axes import rounded_rate, said, with_rate
from planner.proposals.comparing import grounds, standings
from planner.proposals.deadline import deadline_of, too_late
from planner.proposals.doubt import doubt_of
from planner.proposals.elsewhere import other_budgets, other_workloads
from planner.proposals.final_layout import layouts, with_final_layout
from planner.proposals.grid import CellCost, PricedGrid, price_cells
from planner.proposals.layouts import TIGHT_MEMORY, with_layout
from planner.proposals.pilots import COST_TIE, FEWEST_FINAL_UPDATES, LEAST_SIGNAL, carries_signal
from planner.proposals.proposal import Candidate, Proposal
from planner.proposals.published import (
    FEWEST_SUPPORTED_UPDATES,
    HARMFUL_EPOCHS,
    HARMLESS_EPOCHS,
    LARGEST_STEP_ROLLOUTS,
    STUDIED_ROLLOUTS,
)
from planner.proposals.request import PilotGrant, PricedCell, Request, Standing
from planner.proposals.sharing import SHARES, Shares, Split, rounded_up
from planner.view import Configuration


def spread_rates(between: tuple[float, float] | None, has_pilot: Sequence[bool]) -> list[float | None]:
    """Return a factor on the rule's rate for each candidate, None for all without a range to search.

    The first pilot has the rule's own rate, or what of the range is nearest to it; the others follow the sequence of
    van der Corput (1935) over the logarithm of the range, so that however many there are, they lie evenly in it. What
    has no pilot keeps the first one's until the search chooses.
    """
    if between is None:
        return [None] * len(has_pilot)
    low, high = between
    rule = min(high, max(low, 1.0))
    rates: list[float | None] = []
    place = 0
    for pilot in has_pilot:
        share = _van_der_corput(place) if pilot and place else None
        rates.append(rule if share is None else rounded_rate(low * math.exp(share * math.log(high / low)), between))
        place += pilot
    return rates


def _van_der_corput(number: int) -> float:
    """Return the digits of a number in base 2, mirrored at the point."""
    mirrored, part = 0.0, 0.5
    while number:
        mirrored += part * (number & 1)
        number >>= 1
        part /= 2
    return mirrored


LEVEL_NOTE, USUAL_NOTE = "level with the first", "the usual choice"
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
        notes.append(f"stops early (at {epochs:,.3g} passes over the prompts)")
    if cell.signal_fraction < LITTLE_SIGNAL:
        notes.append(f"little signal ({cell.signal_fraction:.0%} of groups)")
    share = memory_share(request.workload, request.traits, request.hardware.gpu, cell.pilot_cost.placement.trainer_gpus)
    if share > TIGHT_MEMORY:
        notes.append(f"memory tight ({share:.0%})")
    largest = LARGEST_STEP_ROLLOUTS.get(request.difficulty)
    if largest is not None and allocation.rollouts_per_step > largest:
        notes.append(f"batch beyond the study ({largest:,})")
    if allocation.rollouts > STUDIED_ROLLOUTS[1]:
        notes.append(f"beyond the study ({allocation.rollouts:.1e} rollouts)")
    return tuple(notes)


def propose(request: Request) -> Proposal:
    """Price and rank every legal cell, choose pilots, and split the budget; BudgetError when it pays for no pilots."""
    asked, request = request, with_layout(with_final_layout(request))
    costs = price_cells(request)
    _require_signal(request, costs)
    grid = PricedGrid(costs)
    decided = Shares(request, grid).decided()
    if decided is None:
        if (late := too_late(asked)) is not None:
            raise BudgetError(late)
        most = max(SHARES) if request.pilots.fraction is None else request.pilots.fraction
        raise BudgetError(_too_small(request.with_share(most), costs))
    split, sharing = decided
    weights = tuple(grid.prior.weights.tolist())
    request = request.with_share(split.fraction)
    pilot_gpu_hours = split.fraction * request.budget_gpu_hours
    left = request.budget_gpu_hours - pilot_gpu_hours
    final_gpu_hours = left if request.within_hours is None else split.final_gpu_hours
    return Proposal(
        request=request,
        pilot_gpu_hours=pilot_gpu_hours,
        final_gpu_hours=final_gpu_hours,
        candidates=_candidates(request, split.ranked, split.grants, standings(split.ranked, weights, request.usual)),
        outlooks=tuple(other_budgets(request, grid, split.fraction, _most_in_time(request, split))),
        layouts=tuple(layouts(request, grid, split.ranked[0], split)),
        ranked_by="expected score",
        world_weights=weights,
        sharing=sharing,
        grounds=grounds(split.ranked, weights),
        elsewhere=tuple(other_workloads(costs, final_gpu_hours)),
        pilot_wall_hours=split.pilot_wall_hours,
        doubt=doubt_of(grid, split.ranked, final_gpu_hours),
        deadline=deadline_of(asked, split),
    )


def _most_in_time(request: Request, split: Split) -> float:
    """Return the GPU-hours that a final run can take by the deadline, whatever the budget."""
    within = request.within_hours
    return math.inf if within is None else request.hardware.gpus_per_trial * (within - split.pilot_wall_hours)


def smallest_budget(request: Request, costs: list[CellCost]) -> float:
    """Return the fewest GPU-hours that pay for pilots of the two cheapest cells and a shortest final run of each."""
    rules = request.pilots
    share = rules.fraction
    useful = [cell for cell in costs if carries_signal(cell.signal_fraction)]
    if not share:
        return min(cell.gpu_hours(FEWEST_FINAL_UPDATES) for cell in useful) * COST_TIE
    second = sorted(cell.pilot_gpu_hours(rules.fewest_steps) for cell in useful)[1]
    least_final = sorted(cell.gpu_hours(FEWEST_FINAL_UPDATES) for cell in useful)[1]
    least = max(2 * second / share, least_final / (1 - share))
    return least * COST_TIE  # a cell may be left out in favour of one that costs as much up to this factor


def _require_signal(request: Request, costs: list[CellCost]) -> None:
    """Refuse a workload on which hardly any group of any size would have differing rewards."""
    if sum(carries_signal(cell.signal_fraction) for cell in costs) >= 2:
        return
    best = max(costs, key=lambda cell: cell.signal_fraction)
    raise InputError(
        f"with an average pass rate of {request.workload.pass_rates.mean:.3g} at most {best.signal_fraction:.1%} of "
        f"the groups carry signal (n={best.rollouts_per_prompt}), and fewer than two cells of the grid reach "
        f"{LEAST_SIGNAL:.0%}: choose prompts with pass rates nearer to one half, or widen [grid]"
    )


def _candidates(
    request: Request,
    ranked: list[PricedCell],
    grants: dict[Configuration, PilotGrant],
    standing: list[Standing],
) -> tuple[Candidate, ...]:
    rates = spread_rates(request.learning_rate_range, [grants[cell.configuration].steps > 0 for cell in ranked])
    return tuple(
        _candidate(rank, cell, grants[cell.configuration], stands, request, factor)
        for rank, (cell, stands, factor) in enumerate(zip(ranked, standing, rates, strict=True), start=1)
    )


def _candidate(
    rank: int, cell: PricedCell, pilot: PilotGrant, standing: Standing, request: Request, searched: float | None
) -> Candidate:
    rule, variant = request.learning_rate, cell.variant
    factor = variant.learning_rate_factor if searched is None else searched
    return Candidate(
        rank=rank,
        cell=cell,
        pilot=pilot,
        learning_rate=factor * cell.allocation.learning_rate(rule.base, rule.base_rollouts),
        epochs=cell.allocation.epochs(variant.workload.prompt_set_size),
        notes=(*_standing_notes(standing, rank), *notes_on(cell, request.of(variant))),
        standing=standing,
        axes=variant.axes if searched is None else with_rate(variant.axes, searched),
    )


def _standing_notes(standing: Standing, rank: int) -> Iterator[str]:
    if standing.level and rank > 1:
        yield LEVEL_NOTE
    if standing.usual:
        yield f"{USUAL_NOTE} ({standing.median:+.3f} against the first)" if rank > 1 else USUAL_NOTE


def _too_small(request: Request, costs: list[CellCost]) -> str:
    rules, hardware = request.pilots, request.hardware
    needed = rounded_up(smallest_budget(request, costs))
    if not rules.fraction:
        return (
            f"{request.budget_gpu_hours:g} GPU-hours are too few for a run of {FEWEST_FINAL_UPDATES} updates of any "
            f"cell. The smallest budget that would do is {needed:,.10g} GPU-hours{_on_fewer_gpus(request)}"
        )
    cheapest = min(costs, key=lambda cell: cell.pilot_gpu_hours(rules.fewest_steps))
    steps = steps_for_budget(
        request.budget_gpu_hours * rules.fraction,
        cheapest.pilot_cost.gpu_hours_per_step,
        cheapest.pilot_cost.start_up_gpu_hours,
    )
    return (
        f"{request.budget_gpu_hours:g} GPU-hours are too few for any comparison: two pilots of {rules.fewest_steps} "
        f"steps are the least, and the pilot part ({rules.fraction:.0%}) buys {steps} steps of the cheapest, "
        f"n={cheapest.rollouts_per_prompt}, B={cheapest.prompts_per_batch}{_named(cheapest)}, on "
        f"{rules.gpus} {hardware.gpu.name}. The smallest budget that would do is {needed:,.10g} "
        f"GPU-hours{_on_fewer_gpus(request)}"
    )


def _named(cell: CellCost) -> str:
    return f", {said(cell.variant.axes)}" if cell.variant.axes else ""


def _on_fewer_gpus(request: Request) -> str:
    """Say what the smallest budget would be on the fewest GPUs per trial, which use them best."""
    hardware = request.hardware
    each = [fewest_gpus(variant.workload, variant.traits, hardware.gpu) for variant in request.all_variants]
    fewest = max((gpus for gpus in each if gpus is not None), default=hardware.gpus)
    share = next((gpus for gpus in hardware.even_shares if gpus >= fewest), hardware.gpus)
    if share >= hardware.gpus_per_trial:
        return "; shorter responses or a smaller model lower it"
    narrow = with_layout(
        replace(
            request,
            hardware=replace(hardware, gpus_per_trial=share),
            pilots=replace(request.pilots, gpus=None),
        )
    )
    needed = rounded_up(smallest_budget(narrow, price_cells(narrow)))
    return f", or {needed:,.10g} with --gpus-per-trial {share}"
