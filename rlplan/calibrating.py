"""Brings measured steps from the database to the cost model."""

from collections.abc import Sequence

from budgets import catalogue
from budgets.calibration import Calibration, MeasuredStep, calibrate
from budgets.memory import Placement
from budgets.work import Phase
from budgets.workload import RecipeTraits
from planner.proposals import Request
from planner.store.schema import CostRecord

_PHASES = {phase.value for phase in Phase}


def calibration_of(records: Sequence[CostRecord], request: Request) -> Calibration:
    """Return what the recorded steps teach about this request's hardware and workload."""
    steps = [_measured_step(record, request.traits) for record in records]
    return calibrate(request.workload, request.hardware.gpu, steps)


def _measured_step(record: CostRecord, own_traits: RecipeTraits) -> MeasuredStep:
    """Read a record; a recipe that is not of the catalogue is taken to cost what the requested one does."""
    known = record.recipe in catalogue.names("recipes")
    return MeasuredStep(
        rollouts_per_prompt=record.rollouts_per_prompt,
        placement=Placement(record.generator_gpus, record.trainer_gpus, record.colocated),
        traits=catalogue.recipe(record.recipe) if known else own_traits,
        generated_rollouts=record.generated_rollouts,
        trained_rollouts=record.trained_rollouts,
        mean_prompt_tokens=record.mean_prompt_tokens,
        mean_response_tokens=record.mean_response_tokens,
        seconds={Phase(name): seconds for name, seconds in record.seconds.items() if name in _PHASES},
    )
