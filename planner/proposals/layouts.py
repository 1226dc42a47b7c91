"""How many GPUs the final run and a pilot get, where nobody says, and what a deadline costs.

More GPUs end sooner, and waste more: a step waits for its longest response however many GPUs wait with it. The final
run gets those on which it is expected to end highest: by the deadline, or without one among those that take no more
than a week, and the fastest where none does.

A pilot gets few enough that many run at once, at a price near the best layout's. An asynchronous recipe keeps its ratio
of trainers to generators on any number, since staleness depends on it: its final run is as many equal parts as fit.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import geometric_mean
from typing import Final

from budgets.cost import step_cost
from budgets.errors import InputError, RlplanError
from budgets.hardware import whole_share
from budgets.memory import TIGHT_MEMORY, fewest_gpus, memory_share
from planner.proposals.grid import PricedGrid, legal_cells, price_cell, price_cells
from planner.proposals.pilots import FEWEST_FINAL_UPDATES
from planner.proposals.proposal import Deadline, Layout
from planner.proposals.request import PricedCell, Request, Variant
from planner.proposals.split import ALIKE, BudgetSplit, BudgetSplitter, smallest
from planner.rules import PATIENCE_HOURS

MORE_GPUS: Final = (2, 4, 8)  # times the machine, as what would meet a deadline
ONE_STEP_OFF: Final = 1  # updates that generators run ahead in the split variant of a synchronous recipe
LONGEST_PILOT: Final = 0.1  # of the final run's time, that one pilot takes at most
NEAR_BEST: Final = 1.05  # times the best layout's price of a rollout
CELLS_PRICED: Final = 8  # of the grid, spread over it: enough to tell layouts apart


def with_final_layout(request: Request) -> Request:
    """Return the request with the GPUs of the final run decided, where they are left open."""
    offered = offered_gpus(request)
    if not request.chooses_gpus or len(offered) < 2:
        # Of a number that is no even part of a node, such as 12, the one share that fits is taken.
        uneven = request.chooses_gpus and not request.hardware.is_whole(request.hardware.gpus_per_trial)
        return on_gpus(request, offered[0]) if offered and uneven else request
    splits = {gpus: split for gpus in offered if (split := _glance(on_gpus(request, gpus))) is not None}
    if not splits:  # a budget that is too small, or a deadline that is too near, is refused where it is split
        return request
    fastest = min(split.wall_hours for split in splits.values())
    patience = max(fastest, request.within_hours or PATIENCE_HOURS)
    soon = {gpus: split for gpus, split in splits.items() if split.wall_hours <= patience}
    enough = max(split.score for split in soon.values()) - ALIKE
    alike = [gpus for gpus, split in soon.items() if split.score >= enough]
    return on_gpus(request, max(alike))  # what ends as high ends soonest on the most


def require_whole(request: Request) -> None:
    """Refuse a final run on GPUs over which batches cannot be spread evenly, such as 7 of a node of 8."""
    hardware, champion = request.hardware, request.champion
    gpus, per_node = hardware.gpus_per_trial, hardware.gpu.gpus_per_node
    if hardware.gpu.one_process or hardware.is_whole(gpus) or (champion and math.prod(champion.sizes) % gpus == 0):
        return
    fewer = next(share for share in range(gpus, 0, -1) if hardware.is_whole(share))
    name = "gpus" if request.chooses_gpus else "gpus_per_trial"
    raise InputError(
        f"{{{name}}}: the {gpus} GPUs of a run are neither an even part of a node of {per_node} nor whole nodes, and "
        f"batches of n·B rollouts do not spread evenly over them: give {fewer} or {whole_share(gpus, per_node)}",
        **{name: gpus},
    )


def on_gpus(request: Request, gpus: int) -> Request:
    """Return the same request with so many GPUs for the final run."""
    return replace(request, hardware=replace(request.hardware, gpus_per_trial=gpus))


def offered_gpus(request: Request) -> list[int]:
    """List the numbers of GPUs that a final run may get: even shares that all variants fit with room to spare.

    A part of a node is none of them where whole nodes are paid, as idle GPUs are then.
    """
    least, shares = request.fewest_gpus, list(request.hardware.even_shares)
    if request.whole_nodes:
        least = max(least, min(request.hardware.gpu.gpus_per_node, request.hardware.gpus))
    return [gpus for gpus in shares if gpus >= least and not is_tight(request, gpus)]


def split_on(request: Request) -> tuple[Request, PricedGrid, BudgetSplit | None]:
    """Decide the pilots' layout and the split of the budget for the final run's GPUs as they are.

    Pilots get more GPUs where one would take longer than a part of the final run's time that nobody waits for.
    """
    placed = with_layout(request)
    grid = PricedGrid(price_cells(placed))
    split = BudgetSplitter(placed, grid).split(request.pilot_fraction)
    if request.pilots.gpus is not None or split is None or split.longest_pilot <= LONGEST_PILOT:
        return placed, grid, split
    for gpus in (gpus for gpus in legal_layouts(request) if gpus > placed.pilot_hardware.gpus_per_trial):
        wider = placed.with_pilots(gpus=gpus)
        on_wider = PricedGrid(price_cells(wider))
        shorter = BudgetSplitter(wider, on_wider).split(request.pilot_fraction)
        if shorter is not None and shorter.longest_pilot <= LONGEST_PILOT:
            return wider, on_wider, shorter
    return placed, grid, split


def layouts(request: Request, grid: PricedGrid, best: PricedCell, split: BudgetSplit) -> Iterator[Layout]:
    """Yield what the best cell takes on each number of GPUs that it may get, in turn and split."""
    hardware, variant = request.hardware, best.variant
    budget = (1 - split.fraction) * request.budget_gpu_hours
    for gpus in sorted({*offered_gpus(request), hardware.gpus_per_trial}, reverse=True):
        on_these = on_gpus(request, gpus).hardware
        cost = step_cost(variant.workload, on_these, variant.traits, *best.key, variant.coefficients)
        time = None if request.within_hours is None else gpus * (request.within_hours - split.pilot_wall_hours)
        money = budget if time is None else max(0.0, min(budget, time))
        steps = grid.useful_steps(best, cost.steps_for(money))
        yield Layout(
            gpus_per_trial=gpus,
            at_once=hardware.gpus // gpus,
            gpu_hours_per_step=cost.gpu_hours_per_step,
            step_seconds=cost.step_seconds,
            update_steps=steps,
            final_wall_hours=cost.gpu_hours(steps) / gpus,
            otherwise_gpu_hours_per_step=_otherwise(request, best, gpus),
            chosen=gpus == hardware.gpus_per_trial,
        )


def _glance(request: Request) -> BudgetSplit | None:
    """Split the budget for the final run's GPUs as they are; challengers without a deadline take of each alike."""
    if request.champion is None or request.within_hours is not None:
        return split_on(request)[2]
    return BudgetSplitter(request, PricedGrid(price_cells(request))).split(0.0)


def _otherwise(request: Request, cell: PricedCell, gpus: int) -> float | None:
    """Return the price of a step if the recipe were split, one step off, or in turn; None where it cannot be."""
    variant, traits = cell.variant, cell.variant.traits
    if not traits.asynchronous and traits.updates_per_batch > 1:
        return None
    other = replace(traits, staleness_bound=0 if traits.asynchronous else ONE_STEP_OFF)
    try:
        hardware = on_gpus(request, gpus).hardware
        return step_cost(variant.workload, hardware, other, *cell.key, variant.coefficients).gpu_hours_per_step
    except RlplanError:
        return None


def deadline_of(request: Request, split: BudgetSplit) -> Deadline | None:
    """Compare the split with the one that the same budget would have without the deadline; None where there is none."""
    if request.within_hours is None:
        return None
    free = with_final_layout(replace(request, within_hours=None))
    without = split_on(free)[2] or split
    final = split.run.gpu_hours
    return Deadline(
        within_hours=request.within_hours,
        takes_hours=split.wall_hours,
        unspent_gpu_hours=max(0.0, (1 - split.fraction) * request.budget_gpu_hours - final),
        expected_score=split.score,
        score_without=without.score,
        gpus_without=free.hardware.gpus_per_trial,
        hours_without=without.wall_hours,
    )


def too_late(request: Request) -> str | None:
    """Say why no plan ends in time and what would; None where the deadline is not what is in the way."""
    within = request.within_hours
    if within is None or split_on(with_final_layout(replace(request, within_hours=None)))[2] is None:
        return None
    hardware = request.hardware
    enough = math.ceil(smallest(lambda hours: _does(request, hours), within))  # without a deadline there is a plan
    larger = (replace(hardware, gpus=n * hardware.gpus, gpus_per_trial=n * hardware.gpus) for n in MORE_GPUS)
    others = (replace(request, hardware=machine, chooses_gpus=True) for machine in larger)
    more = next((other.hardware.gpus for other in others if _does(other, within)), None)
    offers = f", or {more} {hardware.gpu.name}" if more is not None else ""
    if request.champion is None and request.pilot_fraction:
        offers += ", or a smaller --pilot-fraction"
    return (
        f"{hardware.gpus} {hardware.gpu.name} cannot do pilots and a run of {FEWEST_FINAL_UPDATES} updates in "
        f"{within:.4g} h. Give --within {enough}h or more{offers}"
    )


def _does(request: Request, within: float) -> bool:
    return split_on(with_final_layout(replace(request, within_hours=within)))[2] is not None


def with_layout(request: Request) -> Request:
    """Return the request with the GPUs of a pilot decided, or checked where they were given."""
    configured = request.pilots.gpus
    hardware = request.hardware
    if request.champion is not None:
        if configured not in (None, hardware.gpus_per_trial):
            raise InputError(
                f"{{pilot_gpus}}: the champion and its challengers train on the {hardware.gpus_per_trial} GPUs of the "
                "final run. Leave it out, or add {explore}",
                pilot_gpus=configured,
                explore=None,
            )
        return request.with_pilots(gpus=hardware.gpus_per_trial)
    if configured is not None and configured not in (legal := legal_layouts(request)):
        nearest = min(legal, key=lambda gpus: (abs(math.log(gpus / configured)), -gpus))
        models = ", ".join(dict.fromkeys(variant.workload.model.name for variant in request.all_variants))
        ratio = ""
        if any(variant.traits.asynchronous for variant in request.all_variants):
            ratio = f", and an asynchronous recipe divides the {hardware.gpus_per_trial} of its final run"
        raise InputError(
            f"{{pilot_gpus}}: a pilot gets an even part of a node of {hardware.gpu.gpus_per_node} or whole nodes, as "
            f"many as {models} fits and at most the {hardware.gpus_per_trial} of the final run{ratio}; the nearest "
            f"that will do is {nearest}",
            pilot_gpus=configured,
        )
    gpus = configured or (_chosen(request) if request.pilot_fraction else hardware.gpus_per_trial)
    return request.with_pilots(gpus=gpus)


def legal_layouts(request: Request) -> list[int]:
    """List how many GPUs a pilot may get: a part of a node or whole nodes that all variants fit, or the final run's."""
    hardware = request.hardware
    full = hardware.gpus_per_trial
    shares = (gpus for gpus in range(1, full) if hardware.is_whole(gpus))
    return [*(gpus for gpus in shares if all(_fits(request, variant, gpus) for variant in request.all_variants)), full]


def _fits(request: Request, variant: Variant, gpus: int) -> bool:
    fewest = fewest_gpus(variant.workload, variant.traits, request.hardware.gpu)
    keeps_ratio = not variant.traits.asynchronous or request.hardware.gpus_per_trial % gpus == 0
    return keeps_ratio and fewest is not None and fewest <= gpus


def _chosen(request: Request) -> int:
    """Return the fewest GPUs that leave no more places than pilots, of the layouts at nearly the best price."""
    hardware = request.hardware
    full, even = hardware.gpus_per_trial, set(hardware.even_shares)
    offered = [
        gpus for gpus in legal_layouts(request) if gpus == full or (gpus in even and not is_tight(request, gpus))
    ]
    if offered == [full]:
        return full
    # Variants that differ in the learning rate alone cost alike.
    apart = {
        (id(variant.workload), id(variant.traits), id(variant.coefficients)): variant
        for variant in request.all_variants
    }
    prices = {gpus: _prices(request, apart.values(), gpus) for gpus in offered}
    candidates = {gpus: pilot for gpus, (pilot, final) in prices.items() if final <= NEAR_BEST * prices[full][1]}
    near = [gpus for gpus, pilot in candidates.items() if pilot <= NEAR_BEST * min(candidates.values())]
    return next((gpus for gpus in near if hardware.gpus // gpus <= request.pilots.most_pilots), near[-1])


def is_tight(request: Request, gpus: int) -> bool:
    """Whether training fills so many GPUs further than anybody is put unasked."""
    return any(
        memory_share(variant.workload, variant.traits, request.hardware.gpu, gpus) > TIGHT_MEMORY
        for variant in request.all_variants
    )


def _prices(request: Request, variants: Iterable[Variant], gpus: int) -> tuple[float, float]:
    """Return the geometric means of what a step costs a pilot on so many GPUs, and the final run that is as it is."""
    question, cells = request.with_pilots(gpus=gpus), legal_cells(request)
    some = cells[:: math.ceil(len(cells) / CELLS_PRICED)]
    priced = [price_cell(question, variant, n, B) for n, B in some for variant in variants]
    pilots = geometric_mean(cell.pilot_cost.gpu_hours_per_step for cell in priced)
    return pilots, geometric_mean(cell.cost.gpu_hours_per_step for cell in priced)
