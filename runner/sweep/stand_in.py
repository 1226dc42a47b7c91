"""What is different where a stand-in trains: its prices are the plan's, and its GPU-hours those of its own time."""

from collections.abc import Sequence
from typing import Any

from budgets.hardware import SECONDS_PER_HOUR
from planner.config.trainer import STANDIN
from planner.store.schema import Candidate
from runner.sweep.plan_rows import start_up_gpu_hours
from runner.sweep.spec import SweepSpec
from runner.trainers.standin.driver import options_of

_LEAST_SHARE = 0.05  # of an update's seconds: rollouts take no less of them


def in_its_own_time(spec: SweepSpec, candidates: Sequence[Candidate]) -> SweepSpec:
    """Have a sweep of stand-ins cost what the plan says, in scaled time.

    A real second counts for so many of its world, which is the same as so many times the GPUs: slots and the GPUs of a
    machine only count, and what a worker occupies is left as it is.
    """
    training, trainer = spec.training, spec.training.trainer
    if trainer is None or trainer.name != STANDIN:
        return spec
    scale, slots = options_of(trainer).time_scale, spec.resources.slots
    world = dict(training.simulation or {"seed": spec.seed})
    world.setdefault("costs", _costs([row for row in candidates if row.pilot_steps] or candidates, slots))
    machine = training.machine.model_copy(update={"gpus": training.machine.gpus * scale})
    return spec.model_copy(
        update={
            "resources": spec.resources.model_copy(update={"slots": slots * scale}),
            "training": training.model_copy(update={"machine": machine, "simulation": world}),
        }
    )


def without_gpus(spec: SweepSpec) -> SweepSpec:
    """Have a stand-in on this machine occupy none of its GPUs: only on a cluster it shows that its trials fit."""
    trainer = spec.training.trainer
    if trainer is None or trainer.name != STANDIN:
        return spec
    training = spec.training
    machine = training.machine.model_copy(update={"nodes": 1})
    return spec.model_copy(
        update={
            "resources": spec.resources.model_copy(update={"gpus": 0.0}),
            "training": training.model_copy(update={"machine": machine}),
        }
    )


def _costs(candidates: Sequence[Candidate], slots: int) -> dict[str, Any]:
    """Return seconds that are affine in an update's rollouts and come nearest to the plan's prices."""
    rollouts = [row.rollouts_per_prompt * row.prompts_per_batch for row in candidates]
    seconds = [row.pilot_price * SECONDS_PER_HOUR / slots for row in candidates]
    mean_rollouts, mean_seconds = sum(rollouts) / len(rollouts), sum(seconds) / len(seconds)
    spread = sum((count - mean_rollouts) ** 2 for count in rollouts)
    together = sum((r - mean_rollouts) * (s - mean_seconds) for r, s in zip(rollouts, seconds, strict=True))
    most = mean_seconds / mean_rollouts
    per_rollout = min(most, max(_LEAST_SHARE * most, together / spread if spread else most))
    return {
        "seconds_per_rollout": per_rollout,
        "seconds_per_update": max(0.0, mean_seconds - per_rollout * mean_rollouts),
        "seconds_per_answer": 0.0,  # the plan's price of a step has its share of a validation
        "start_up_seconds": start_up_gpu_hours(candidates) * SECONDS_PER_HOUR / slots,
    }
