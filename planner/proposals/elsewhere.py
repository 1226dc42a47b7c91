"""What would be chosen in other circumstances: other budgets, more prompts, another pass rate."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from budgets.signal import BetaPassRates, signal_fraction
from budgets.workload import Workload
from planner.proposals.grid import CellCost, PricedGrid
from planner.proposals.proposal import Elsewhere, Outlook
from planner.proposals.request import Request
from planner.proposals.worlds import logit, published_group

OUTLOOK_FACTORS: Final = (0.25, 1.0, 4.0)
MORE_PROMPTS: Final = 10
OTHER_RATES: Final = (-1.5, 1.5)  # in log odds: from 0.45 to 0.15 and 0.79


def other_budgets(request: Request, grid: PricedGrid, share: float, most: float) -> Iterator[Outlook]:
    """Yield what smaller and larger budgets would be best spent on, with the same share for pilots.

    `most` are the GPU-hours that a final run can take by the deadline.
    """
    for factor in OUTLOOK_FACTORS:
        budget = factor * request.budget_gpu_hours
        best = next(iter(grid.ranked(min(most, budget * (1 - share)))), None)
        law = published_group(best.variant.workload.pass_rates.mean, best.allocation.rollouts) if best else None
        yield Outlook(factor, budget, best, law)


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
