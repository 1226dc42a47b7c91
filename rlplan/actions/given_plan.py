"""A plan whose allocations are given, not proposed: of runs that were adopted, or measured."""

from collections.abc import Sequence
from importlib.metadata import version

from budgets.allocation import Allocation
from budgets.signal import signal_fraction
from planner.config import Resolved, resolved_values
from planner.proposals import Request, Variant
from planner.store.schema import Candidate, Plan
from rlplan.reading.plan_data import HardwareData, WorkloadData
from rlplan.wording.documents import plain


def given_plan(
    request: Request, resolved: Resolved, candidates: Sequence[Candidate], pilot: float, final: float
) -> Plan:
    """Return the row of a plan with these candidates, and the GPU-hours of pilots and of the final run."""
    return Plan(
        budget_gpu_hours=pilot + final,
        pilot_gpu_hours=pilot,
        final_gpu_hours=final,
        recipe=", ".join(dict.fromkeys(variant.traits.name for variant in request.all_variants)),
        difficulty=request.difficulty,
        workload=plain(WorkloadData(request)),
        hardware=plain(HardwareData(request)),
        config=resolved_values(request, resolved),
        assumptions=[],
        outlook=[],
        rlplan_version=version("rlplan"),
        candidates=list(candidates),
    )


def given_candidate(
    request: Request,
    variant: Variant,
    allocation: Allocation,
    price: tuple[float, float, float],
    learning_rate: float,
    pilot: tuple[int, int, float],
    reason: str,
    rank: int = 1,
) -> Candidate:
    """Return the row of an allocation at a price of a step, with its interval.

    `pilot` are its steps, those of a segment, and its GPU-hours with a start-up.
    """
    low, middle, high = price
    steps, segment, gpu_hours = pilot
    return Candidate(
        rank=rank,
        rollouts_per_prompt=allocation.rollouts_per_prompt,
        prompts_per_batch=allocation.prompts_per_batch,
        update_steps=allocation.update_steps,
        pilot_steps=steps,
        gpu_hours_per_step=middle,
        gpu_hours_per_step_low=low,
        gpu_hours_per_step_high=high,
        segment_steps=segment,
        pilot_gpu_hours=gpu_hours,
        learning_rate=learning_rate,
        epochs=allocation.epochs(request.workload.prompt_set_size),
        signal_fraction=signal_fraction(variant.workload.pass_rates, allocation.rollouts_per_prompt),
        pilot_reason=reason,
        axes=variant.axes,
        recipe=variant.traits.name,
    )
