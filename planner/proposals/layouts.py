"""How many GPUs a pilot gets: few enough that many run at once, at a price near the best layout's.

A pilot need not have the final run's layout. A step waits for its longest response, however many GPUs wait with it, so
that fewer are cheaper for each rollout. An asynchronous recipe keeps its ratio of trainers to generators on any number,
since staleness depends on it: its final run is then as many equal parts as fit.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from budgets.cost import step_cost
from budgets.errors import InputError
from budgets.memory import TIGHT_MEMORY, fewest_gpus, memory_share
from planner.proposals.grid import legal_cells
from planner.proposals.request import Request, Variant

NEAR_BEST: Final = 1.05  # times the best layout's price of a rollout
CELLS_PRICED: Final = 8  # of the grid, spread over it: enough to tell layouts apart


def with_layout(request: Request) -> Request:
    """Return the request with the GPUs of a pilot decided, or checked where they were given."""
    given = request.pilots.gpus
    if given is not None and given not in (legal := legal_layouts(request)):
        raise InputError(_refused(request, given, legal))
    gpus = given or (request.hardware.gpus_per_trial if request.pilots.fraction == 0 else _chosen(request))
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
    apart = {(id(each.workload), id(each.traits), id(each.coefficients)): each for each in request.all_variants}
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
    hardware = request.hardware
    narrow, parts = replace(hardware, gpus_per_trial=gpus), hardware.gpus_per_trial // gpus
    cells = legal_cells(request)
    pilot, final = [], []
    for n, B in cells[:: math.ceil(len(cells) / CELLS_PRICED)]:
        for each in variants:
            terms = (each.traits, n, B, each.coefficients)
            whole = step_cost(each.workload, hardware, *terms, parts=parts)
            part = step_cost(each.workload, narrow, *terms, placement=whole.placement.on(gpus))
            pilot.append(math.log(part.gpu_hours_per_step))
            final.append(math.log(whole.gpu_hours_per_step))
    return math.exp(math.fsum(pilot) / len(pilot)), math.exp(math.fsum(final) / len(final))


def _refused(request: Request, given: int, legal: list[int]) -> str:
    hardware = request.hardware
    nearest = min(legal, key=lambda gpus: (abs(math.log(gpus / given)), -gpus))
    models = ", ".join(dict.fromkeys(variant.workload.model.name for variant in request.all_variants))
    ratio = (
        f", and an asynchronous recipe divides the {hardware.gpus_per_trial} of its final run"
        if any(variant.traits.asynchronous for variant in request.all_variants)
        else ""
    )
    return (
        f"--pilot-gpus {given}: a pilot gets an even part of a node of {hardware.gpu.gpus_per_node} or whole nodes, as "
        f"many as {models} fits and at most the {hardware.gpus_per_trial} of the final run{ratio}; the nearest that "
        f"will do is {nearest}"
    )
