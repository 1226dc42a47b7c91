"""The cells (n, B) that are legal, each priced, and ranked for a number of GPU-hours by a published prior."""

import math
from dataclasses import dataclass, replace

from budgets.allocation import Allocation, steps_for_budget
from budgets.cost import Z90, StepCost, step_cost
from budgets.errors import InputError
from budgets.signal import signal_fraction
from budgets.workload import Workload
from planner.proposals.published import (
    FARTHEST_ROLLOUTS,
    FEWEST_SUPPORTED_UPDATES,
    FRONTIERS,
    HARMLESS_EPOCHS,
    STUDIED_PARAMETERS,
    STUDIED_ROLLOUTS,
    SUPPORTED_PARAMETERS,
    SUPPORTED_RESPONSE_TOKENS,
    FrontierPrior,
)
from planner.proposals.request import PricedCell, Request, ScoreInterval, Variant

# Updates on fewer rollouts are noisier: progress per update ∝ 1 / (1 + critical / informative rollouts). That the
# relevant size is n·B is published (OpenReview uK4kMpNx0W); the number is an assumption.
CRITICAL_ROLLOUTS = 256.0
MODEL_SIZE_SD_PER_OCTAVE = 0.02
EXTRAPOLATION_SD_PER_OCTAVE = 0.02


def applicable_prior(workload: Workload, difficulty: str) -> FrontierPrior | None:
    """Return the published frontier for this difficulty, or None when the workload lies outside of the study."""
    in_range = (
        SUPPORTED_PARAMETERS[0] <= workload.model.parameters <= SUPPORTED_PARAMETERS[1]
        and not workload.model.experts
        and SUPPORTED_RESPONSE_TOKENS[0] <= workload.responses.cap <= SUPPORTED_RESPONSE_TOKENS[1]
    )
    return FRONTIERS.get(difficulty) if in_range else None


def expected_score(prior: FrontierPrior | None, workload: Workload, allocation: Allocation) -> ScoreInterval | None:
    """Return the expected validation score of a run with a 90 % interval, or None when nothing supports one."""
    rollouts = allocation.rollouts
    if prior is None or allocation.update_steps < FEWEST_SUPPORTED_UPDATES:
        return None
    if not STUDIED_ROLLOUTS[0] <= rollouts <= FARTHEST_ROLLOUTS:
        return None
    octaves_n = abs(math.log2(allocation.rollouts_per_prompt / prior.optimal_group(rollouts)))
    octaves_B = abs(math.log2(allocation.prompts_per_batch / prior.optimal_prompts(rollouts)))
    loss = octaves_n * prior.loss_per_group_octave + octaves_B * prior.loss_per_prompt_octave
    base = workload.pass_rates.mean
    median = max(base, prior.frontier_score(rollouts, base) - loss)
    octaves_size = abs(math.log2(workload.model.parameters / STUDIED_PARAMETERS))
    octaves_beyond = max(0.0, math.log2(rollouts / STUDIED_ROLLOUTS[1]))
    sd = math.hypot(
        prior.score_sd, MODEL_SIZE_SD_PER_OCTAVE * octaves_size, EXTRAPOLATION_SD_PER_OCTAVE * octaves_beyond, loss / 2
    )
    return ScoreInterval(median, max(0.0, median - Z90 * sd), min(1.0, median + Z90 * sd))


def effective_updates(allocation: Allocation, signal: float, prompt_set_size: int) -> float:
    """Count updates by what they teach: less on few informative rollouts, nothing on empty groups.

    Passes over the prompts beyond the harmless ones count as their logarithm, since repeated prompts teach less.
    """
    informative = allocation.rollouts_per_step * signal * (1 - 1 / allocation.rollouts_per_prompt)
    overuse = max(1.0, allocation.epochs(prompt_set_size) / HARMLESS_EPOCHS)
    fresh_updates = allocation.update_steps / overuse * (1 + math.log(overuse))
    return fresh_updates * informative / (informative + CRITICAL_ROLLOUTS)


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
