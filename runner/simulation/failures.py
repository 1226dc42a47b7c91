"""When a simulated trial fails and when its worker is lost: each follows from the trial, its step and its attempt."""

import math

from budgets.hardware import SECONDS_PER_HOUR
from runner.ports.simulation import Failures
from runner.simulation.chance import uniform
from runner.simulation.world import Breakdown


def first_breakdown(failures: Failures, trial: int, rollouts: int) -> Breakdown | None:
    """Return the first update that fails of a trial with this key and so many rollouts per step."""
    candidates = [_out_of_memory(failures, rollouts), _nan(failures, trial), _stated(failures)]
    return min((found for found in candidates if found), key=lambda found: found.step, default=None)


def seconds_until_lost(failures: Failures, trial: int, attempt: int, from_step: int, gpus: int) -> float:
    """Return when the worker is lost, at a constant rate per GPU-hour; another attempt is another draw."""
    rate = failures.lost_per_gpu_hour * gpus / SECONDS_PER_HOUR
    return -math.log(uniform(trial, attempt, from_step, 51)) / rate if rate else math.inf


def _out_of_memory(failures: Failures, rollouts: int) -> Breakdown | None:
    most = failures.most_rollouts
    if most is None or rollouts <= most:
        return None
    return Breakdown(
        1,
        "out-of-memory",
        f"out of memory in update 1: {rollouts:,} rollouts per step, and this world has room for {most:,}; use fewer",
    )


def _nan(failures: Failures, trial: int) -> Breakdown | None:
    if not failures.nan_per_update:
        return None
    step = max(1, math.ceil(math.log(uniform(trial, 52)) / math.log1p(-failures.nan_per_update)))
    return Breakdown(step, "nan", f"the loss of update {step} is not a number; use a lower learning rate")


def _stated(failures: Failures) -> Breakdown | None:
    step, kind = failures.at_step, failures.at_step_kind
    return None if step is None else Breakdown(step, kind, f"{kind} in update {step}, as simulation.failures asks for")
