"""What a segment's updates took, as a record that later plans are priced from."""

import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from budgets.work import Phase
from planner.axes import MODEL, text_of
from planner.store.records import NewCostRecord
from planner.view import TrialView
from runner.ports.backend import Point
from runner.sweep.spec import SweepSpec

FEWEST_UPDATES = 3  # the first ones of a process are slower than the rest


def cost_record(
    spec: SweepSpec, workload: dict[str, Any], trial: TrialView, points: Sequence[Point], at: datetime
) -> NewCostRecord | None:
    """Return the typical seconds of each phase over a segment's updates; None when they tell too little.

    What a trainer from outside takes has no phases, and what a stand-in takes is no measurement.
    """
    if spec.training.trainer is not None:
        return None
    updates = [point.metrics for point in points if point.optimizer_step and "response_tokens" in point.metrics]
    if len(updates) < FEWEST_UPDATES:
        return None
    # Where the batch grows, updates of other sizes took other times: the newest size counts.
    prompts = updates[-1].get("prompts_per_batch", trial.prompts_per_batch)
    updates = [each for each in updates if each.get("prompts_per_batch", trial.prompts_per_batch) == prompts]
    seconds = {phase.value: _typical(updates, phase.value) for phase in Phase}
    return NewCostRecord(
        at=at,
        gpu=spec.resources.gpu,
        generator_gpus=spec.resources.slots,
        trainer_gpus=spec.resources.slots,
        colocated=True,
        model=text_of(trial.axes, MODEL) or str(workload["model"]),
        recipe=spec.recipe(trial.axes).name,
        rollouts_per_prompt=trial.rollouts_per_prompt,
        prompts_per_batch=int(prompts),
        generated_rollouts=round(_mean(updates, "generated_rollouts")),
        trained_rollouts=round(_mean(updates, "trained_rollouts")),
        mean_prompt_tokens=float(workload["prompt_tokens"]),
        mean_response_tokens=_mean(updates, "response_tokens"),
        longest_response_tokens=max(
            float(each.get("longest_response_tokens", each["response_tokens"])) for each in updates
        ),
        seconds={name: value for name, value in seconds.items() if value is not None},
        trial_id=trial.trial,
    )


def _typical(updates: Sequence[dict[str, Any]], phase: str) -> float | None:
    """Return the median over the updates in which the phase occurred."""
    took = [each["seconds"][phase] for each in updates if each.get("seconds", {}).get(phase)]
    return statistics.median(took) if took else None


def _mean(updates: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.fmean(float(each[name]) for each in updates)
