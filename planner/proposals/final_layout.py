"""How many GPUs the final run gets, where nobody says: compared by GPU-hours, by wall time, and by a deadline.

More GPUs end sooner, and waste more: a step waits for its longest response however many GPUs wait with it. The run gets
those on which it is expected to end highest: by the deadline, or without one among those that take no more than a week,
and the fastest where none does.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from budgets.allocation import steps_for_budget
from budgets.cost import step_cost
from budgets.errors import RlplanError
from budgets.memory import fewest_gpus
from planner.proposals.grid import PricedGrid, price_cells
from planner.proposals.layouts import is_tight, with_layout
from planner.proposals.proposal import Layout
from planner.proposals.request import PricedCell, Request
from planner.proposals.sharing import ALIKE, Shares, Split

PATIENCE_HOURS: Final = 168.0  # a week: what a plan takes without being asked
LOOKED_AT: Final = (0.0, 0.1, 0.2)  # shares of pilots by which layouts are compared, where the share is open
ONE_STEP_OFF: Final = 1  # updates that generators run ahead in the split variant of a synchronous recipe


def with_final_layout(request: Request) -> Request:
    """Return the request with the GPUs of the final run decided, where they are left open."""
    offered = offered_gpus(request)
    if not request.chooses_gpus or len(offered) < 2:
        return request
    splits = {gpus: split for gpus in offered if (split := _glance(on_gpus(request, gpus))) is not None}
    if not splits:  # a budget that is too small, or a deadline that is too near, is refused where it is split
        return request
    fastest = min(split.wall_hours for split in splits.values())
    patience = max(fastest, request.within_hours or PATIENCE_HOURS)
    soon = {gpus: split for gpus, split in splits.items() if split.wall_hours <= patience}
    enough = max(split.score for split in soon.values()) - ALIKE
    alike = [gpus for gpus, split in soon.items() if split.score >= enough]
    return on_gpus(request, max(alike))  # what ends as high ends soonest on the most


def on_gpus(request: Request, gpus: int) -> Request:
    """Return the same request with so many GPUs for the final run."""
    return replace(request, hardware=replace(request.hardware, gpus_per_trial=gpus))


def offered_gpus(request: Request) -> list[int]:
    """List the numbers of GPUs that a final run may get: even shares that all variants fit with room to spare."""
    hardware = request.hardware
    needed = [fewest_gpus(each.workload, each.traits, hardware.gpu) for each in request.all_variants]
    fewest = max((gpus for gpus in needed if gpus is not None), default=hardware.gpus)
    return [gpus for gpus in hardware.even_shares if gpus >= fewest and not is_tight(request, gpus)]


def split_on(request: Request) -> tuple[Request, PricedGrid, Split | None]:
    """Decide the pilots' layout and the split of the budget for the final run's GPUs as they are."""
    laid = with_layout(request)
    grid = PricedGrid(price_cells(laid))
    decided = Shares(laid, grid).decided()
    return laid, grid, None if decided is None else decided[0]


def layouts(request: Request, grid: PricedGrid, best: PricedCell, split: Split) -> Iterator[Layout]:
    """Yield what the best cell takes on each number of GPUs that it may get, in turn and split."""
    hardware, variant = request.hardware, best.variant
    budget = (1 - split.fraction) * request.budget_gpu_hours
    for gpus in sorted({*offered_gpus(request), hardware.gpus_per_trial}, reverse=True):
        each = on_gpus(request, gpus).hardware
        cost = step_cost(variant.workload, each, variant.traits, *best.key, variant.coefficients)
        time = None if request.within_hours is None else gpus * (request.within_hours - split.pilot_wall_hours)
        left = budget if time is None else max(0.0, min(budget, time))
        steps = grid.useful_steps(best, steps_for_budget(left, cost.gpu_hours_per_step, cost.start_up_gpu_hours))
        yield Layout(
            gpus_per_trial=gpus,
            at_once=hardware.gpus // gpus,
            gpu_hours_per_step=cost.gpu_hours_per_step,
            step_seconds=cost.step_seconds,
            update_steps=steps,
            final_wall_hours=(cost.start_up_gpu_hours + steps * cost.gpu_hours_per_step) / gpus,
            otherwise_gpu_hours_per_step=_otherwise(request, best, gpus),
            chosen=gpus == hardware.gpus_per_trial,
        )


def _glance(request: Request) -> Split | None:
    """Split the budget for the final run's GPUs as they are, at the share that is given or the best of a few."""
    given = request.pilots.fraction
    fractions = (given,) if given is not None else LOOKED_AT if request.within_hours is not None else (0.0,)
    laid = with_layout(request) if any(fractions) else request
    shares = Shares(laid, PricedGrid(price_cells(laid)))
    splits = [split for fraction in fractions if (split := shares.split(fraction)) is not None]
    return max(splits, key=lambda split: split.score, default=None)


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
