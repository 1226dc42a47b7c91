"""Brings measured steps from the database to the cost model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from budgets.cost import Coefficients
from budgets.hardware import Gpu
from budgets.memory import Placement
from budgets.work import Phase
from budgets.workload import RecipeTraits, Workload
from planner.recipes import load_recipe, recipe_names
from planner.store import Store
from planner.store.schema import CostRecord

if TYPE_CHECKING:
    from budgets.calibration import Calibration, MeasuredStep

_PHASES = {phase.value for phase in Phase}


def coefficients_of(
    store: Store, workload: Workload, gpu: Gpu, traits: RecipeTraits, before: Coefficients
) -> Coefficients:
    """Calibrate on the steps that were measured with this GPU and model; what was known before when there are none."""
    records = store.cost_records(gpu=gpu.name, model=workload.model.name)
    return calibration_of(records, workload, gpu, traits, before).coefficients if records else before


def calibration_of(
    records: Sequence[CostRecord],
    workload: Workload,
    gpu: Gpu,
    traits: RecipeTraits,
    before: Coefficients | None = None,
) -> "Calibration":
    """Return what the recorded steps teach about this hardware and workload.

    A recipe that is not a shipped one is taken to cost what the requested one does: its file may have changed since.
    """
    from budgets.calibration import calibrate  # noqa: PLC0415 (for measured steps alone)

    named = {record.recipe for record in records}.intersection(recipe_names())
    shipped = {name: load_recipe(name).traits() for name in named}
    steps = [_measured_step(record, shipped.get(record.recipe, traits)) for record in records]
    return calibrate(workload, gpu, steps, before)


def _measured_step(record: CostRecord, traits: RecipeTraits) -> "MeasuredStep":
    from budgets.calibration import MeasuredStep  # noqa: PLC0415

    return MeasuredStep(
        rollouts_per_prompt=record.rollouts_per_prompt,
        placement=Placement(record.generator_gpus, record.trainer_gpus, record.colocated),
        traits=traits,
        generated_rollouts=record.generated_rollouts,
        trained_rollouts=record.trained_rollouts,
        mean_prompt_tokens=record.mean_prompt_tokens,
        mean_response_tokens=record.mean_response_tokens,
        seconds={Phase(name): seconds for name, seconds in record.seconds.items() if name in _PHASES},
    )
