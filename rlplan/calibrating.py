"""Brings measured steps from the database to the cost model."""

from collections.abc import Sequence

from budgets.calibration import Calibration, MeasuredStep, calibrate
from budgets.memory import Placement
from budgets.work import Phase
from planner.proposals import Request
from planner.store.schema import CostRecord


def calibration_of(records: Sequence[CostRecord], request: Request) -> Calibration:
    """Return what the recorded steps teach about this request's hardware and workload.

    Records keep the GPUs of the trial, not how a split shared them out; they are read as colocated.
    """
    phases = {phase.value for phase in Phase}
    steps = [
        MeasuredStep(
            rollouts_per_prompt=record.rollouts_per_prompt,
            prompts_per_batch=record.prompts_per_batch,
            placement=Placement(record.gpus, record.gpus, colocated=True),
            prompt_tokens=record.prompt_tokens,
            response_tokens=record.response_tokens,
            seconds={Phase(name): seconds for name, seconds in record.seconds.items() if name in phases},
        )
        for record in records
    ]
    return calibrate(request.workload, request.hardware.gpu, request.traits, steps)
