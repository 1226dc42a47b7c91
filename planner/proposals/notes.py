"""What to mind about a candidate, in a few words each."""

from budgets.memory import memory_share
from planner.proposals.published import (
    FEWEST_SUPPORTED_UPDATES,
    HARMFUL_EPOCHS,
    HARMLESS_EPOCHS,
    LARGEST_STEP_ROLLOUTS,
    STUDIED_ROLLOUTS,
)
from planner.proposals.request import PricedCell, Request

LITTLE_SIGNAL = 0.3
TIGHT_MEMORY = 0.85


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
    if cell.signal_fraction < LITTLE_SIGNAL:
        notes.append(f"little signal ({cell.signal_fraction:.0%} of groups)")
    share = memory_share(request.workload, request.traits, request.hardware.gpu, cell.cost.placement.trainer_gpus)
    if share > TIGHT_MEMORY:
        notes.append(f"memory tight ({share:.0%})")
    largest = LARGEST_STEP_ROLLOUTS.get(request.difficulty)
    if largest is not None and allocation.rollouts_per_step > largest:
        notes.append(f"batch beyond the study ({largest:,})")
    if cell.expected_score is not None and allocation.rollouts > STUDIED_ROLLOUTS[1]:
        notes.append(f"beyond the study ({allocation.rollouts:.1e} rollouts)")
    return tuple(notes)
