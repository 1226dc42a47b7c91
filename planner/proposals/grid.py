"""The cells (n, B) that are legal, each priced and ranked for a number of GPU-hours."""

from dataclasses import dataclass, replace

from budgets.allocation import Allocation, steps_for_budget
from budgets.cost import StepCost, step_cost
from budgets.errors import InputError
from budgets.signal import signal_fraction
from planner.proposals.prior import applicable_prior, effective_updates, expected_score
from planner.proposals.request import PricedCell, Request, Variant


@dataclass(frozen=True, slots=True)
class CellCost:
    """What a step of (n, B) of a variant costs, whatever the budget."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    cost: StepCost
    signal_fraction: float
    variant: Variant

    def gpu_hours(self, steps: int) -> float:
        """Return the GPU-hours of a run of so many steps, start-up included."""
        return self.cost.start_up_gpu_hours + steps * self.cost.gpu_hours_per_step


def legal_cells(request: Request) -> list[tuple[int, int]]:
    """List the powers of two within the grid's bounds that the prompt set can fill a batch from."""
    bounds = request.grid
    prompts = request.workload.prompt_set_size
    cells = [
        (n, B)
        for n in _powers_of_two(max(2, bounds.fewest_rollouts_per_prompt), bounds.most_rollouts_per_prompt)
        for B in _powers_of_two(bounds.fewest_prompts_per_batch, min(bounds.most_prompts_per_batch, prompts))
        if bounds.fewest_rollouts_per_step <= n * B <= bounds.most_rollouts_per_step
    ]
    if not cells:
        raise InputError(
            f"no power of two lies within the grid's bounds: {bounds.fewest_rollouts_per_prompt}–"
            f"{bounds.most_rollouts_per_prompt} rollouts × {bounds.fewest_prompts_per_batch}–"
            f"{bounds.most_prompts_per_batch} prompts, {bounds.fewest_rollouts_per_step}–"
            f"{bounds.most_rollouts_per_step} rollouts a step, {prompts} prompts in the set; widen [grid]"
        )
    return cells


def price_cells(request: Request) -> list[CellCost]:
    """Price a step of every legal cell, for each variant; those that differ in the learning rate alone cost alike."""
    priced: dict[tuple[int, int, int], list[CellCost]] = {}
    costs: list[CellCost] = []
    for variant in request.all_variants:
        alike = priced.setdefault((id(variant.workload), id(variant.traits), id(variant.coefficients)), [])
        if not alike:
            alike += [_price(request, variant, n, B) for n, B in legal_cells(request)]
        costs += [replace(cell, variant=variant) for cell in alike]
    return costs


def _price(request: Request, variant: Variant, n: int, B: int) -> CellCost:
    return CellCost(
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        cost=step_cost(variant.workload, request.hardware, variant.traits, n, B, variant.coefficients),
        signal_fraction=signal_fraction(variant.workload.pass_rates, n),
        variant=variant,
    )


def rank_cells(request: Request, costs: list[CellCost], gpu_hours: float) -> list[PricedCell]:
    """Return the cells that the GPU-hours buy at least one step of, best first.

    Cells with an expected score come first, by its median; the others by effective updates.
    """
    priced = []
    for cell in costs:
        workload = cell.variant.workload
        prior = applicable_prior(workload, request.difficulty)
        steps = steps_for_budget(gpu_hours, cell.cost.gpu_hours_per_step, cell.cost.start_up_gpu_hours)
        if steps < 1:
            continue
        allocation = Allocation(cell.rollouts_per_prompt, cell.prompts_per_batch, steps)
        priced.append(
            PricedCell(
                allocation=allocation,
                cost=cell.cost,
                signal_fraction=cell.signal_fraction,
                expected_score=expected_score(prior, workload, allocation),
                effective_updates=effective_updates(allocation, cell.signal_fraction, workload.prompt_set_size),
                variant=cell.variant,
            )
        )
    return sorted(priced, key=_worst_last)  # variants that are equal in all this stay in the order of the request


def _worst_last(cell: PricedCell) -> tuple[bool, float, float, tuple[int, int]]:
    score = cell.expected_score
    return (score is None, -score.median if score else 0.0, -cell.effective_updates, cell.key)


def _powers_of_two(low: int, high: int) -> list[int]:
    return [2**power for power in range(high.bit_length()) if low <= 2**power <= high]
