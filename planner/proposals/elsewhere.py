"""What would be chosen in other circumstances: other budgets, fewer GPUs, more prompts, another pass rate."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from budgets.allocation import steps_for_budget
from budgets.cost import step_cost
from budgets.memory import fewest_gpus
from budgets.signal import BetaPassRates, signal_fraction
from budgets.workload import Workload
from planner.proposals.grid import CellCost, PricedGrid
from planner.proposals.request import Elsewhere, NarrowerTrial, Outlook, PricedCell, Request
from planner.proposals.worlds import logit, published_group

OUTLOOK_FACTORS: Final = (0.25, 1.0, 4.0)
LEAST_SAVING: Final = 0.05  # in GPU-hours per step, below which fewer GPUs are not worth a line
MORE_PROMPTS: Final = 10
OTHER_RATES: Final = (-1.5, 1.5)  # in log odds: from 0.45 to 0.15 and 0.79


def other_budgets(request: Request, grid: PricedGrid, share: float) -> Iterator[Outlook]:
    """Yield what smaller and larger budgets would be best spent on, with the same share for pilots."""
    for factor in OUTLOOK_FACTORS:
        budget = factor * request.budget_gpu_hours
        best = next(iter(grid.ranked(budget * (1 - share))), None)
        law = published_group(best.variant.workload.pass_rates.mean, best.allocation.rollouts) if best else None
        yield Outlook(factor, budget, best, law)


def fewer_gpus(request: Request, grid: PricedGrid, best: PricedCell, final_gpu_hours: float) -> Iterator[NarrowerTrial]:
    """Price the best cell on a half, a quarter and an eighth of the GPUs, where it fits and saves something."""
    hardware, allocation, variant = request.hardware, best.allocation, best.variant
    for divisor in (2, 4, 8):
        gpus = hardware.gpus_per_trial // divisor
        fewest = fewest_gpus(variant.workload, variant.traits, hardware.gpu)
        if fewest is None or gpus < fewest:
            return
        if gpus not in hardware.even_shares:
            continue
        narrower = replace(hardware, gpus_per_trial=gpus)
        n, B = allocation.rollouts_per_prompt, allocation.prompts_per_batch
        cost = step_cost(variant.workload, narrower, variant.traits, n, B, variant.coefficients)
        if cost.gpu_hours_per_step > (1 - LEAST_SAVING) * best.cost.gpu_hours_per_step:
            continue
        steps = grid.useful_steps(
            best, steps_for_budget(final_gpu_hours, cost.gpu_hours_per_step, cost.start_up_gpu_hours)
        )
        used = cost.start_up_gpu_hours + steps * cost.gpu_hours_per_step
        yield NarrowerTrial(gpus, cost.gpu_hours_per_step, steps, used / gpus)


def other_workloads(costs: Sequence[CellCost], gpu_hours: float) -> Iterator[Elsewhere]:
    """Yield what the same GPU-hours would be best spent on in other circumstances, at the same prices."""
    workload = costs[0].variant.workload
    prompts = MORE_PROMPTS * workload.prompt_set_size
    others = [(f"{prompts:,} prompts", replace(workload, prompt_set_size=prompts))]
    for odds in OTHER_RATES:
        rate = 1 / (1 + math.exp(-logit(workload.pass_rates.mean) - odds))
        others.append((f"a mean pass rate of {rate:.2g}", replace(workload, pass_rates=BetaPassRates(rate))))
    for what, other in others:
        ranked = PricedGrid(_moved(costs, other)).ranked(gpu_hours)
        if ranked:
            yield Elsewhere(what, ranked[0])


def _moved(costs: Sequence[CellCost], other: Workload) -> list[CellCost]:
    """Return the same cells of the first variant, at the same prices, with another workload."""
    variant = replace(costs[0].variant, workload=other)
    return [
        replace(cell, variant=variant, signal_fraction=signal_fraction(other.pass_rates, cell.rollouts_per_prompt))
        for cell in costs
        if cell.variant is costs[0].variant
    ]
