"""What the updates of a segment took, as later plans are priced from it."""

import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from budgets.work import Phase
from planner.axes import MODEL, text_of
from planner.config.trainer import STANDIN
from planner.store.results import WHOLE
from planner.store.schema import CostRecord
from planner.view import TrialView
from runner.ports.backend import Point
from runner.sweep.spec import SweepSpec
from runner.trainers.catalogue import always_apart

ONCE_A_BATCH = (Phase.GENERATE.value, Phase.REWARD.value, Phase.REFERENCE.value)  # by our trainer, in its first update
FEWEST_UPDATES = 3  # the first ones of a process are slower than the rest


def cost_record(
    spec: SweepSpec, workload: dict[str, Any], trial: TrialView, points: Sequence[Point], at: datetime
) -> CostRecord | None:
    """Return the typical seconds of each phase over a segment's updates; None when they tell too little."""
    if spec.training.trainer is not None:
        return _of_outside(spec, workload, trial, points, at)
    updates = [point.metrics for point in points if _is_timed(point)]
    if len(updates) < FEWEST_UPDATES:
        return None
    # Where the batch grows, updates of other sizes took other times: the newest size counts.
    prompts = updates[-1].get("prompts_per_batch", trial.prompts_per_batch)
    updates = [update for update in updates if update.get("prompts_per_batch", trial.prompts_per_batch) == prompts]
    took = {
        phase.value: [it["seconds"][phase] for it in updates if it.get("seconds", {}).get(phase)] for phase in Phase
    }
    shares = dict.fromkeys(ONCE_A_BATCH, spec.recipe(trial.axes).schedule.updates_per_batch)
    return CostRecord(
        **_common(spec, workload, trial, at),
        prompts_per_batch=int(prompts),
        generated_rollouts=round(_mean(updates, "generated_rollouts")),
        trained_rollouts=round(_mean(updates, "trained_rollouts")),
        mean_response_tokens=_mean(updates, "response_tokens"),
        longest_response_tokens=max(
            float(update.get("longest_response_tokens", update["response_tokens"])) for update in updates
        ),
        seconds={name: statistics.median(values) / shares.get(name, 1) for name, values in took.items() if values},
        steps=len(updates),
    )


def _of_outside(
    spec: SweepSpec, workload: dict[str, Any], trial: TrialView, points: Sequence[Point], at: datetime
) -> CostRecord | None:
    """Return the typical seconds of whole updates of a trainer from outside, which cuts phases in its own way.

    Left out are updates with a validation or a save, and the first of a segment. Told is nothing by a stand-in, where
    the lengths or the number of rollouts are not known, or where generating has GPUs of its own: they are not recorded.
    """
    trainer, recipe = spec.training.trainer, spec.recipe(trial.axes)
    if trainer is None or trainer.name == STANDIN or spec.training.simulation is not None:
        return None
    if recipe.schedule.staleness_bound or recipe.filters.zero_variance == "refill" or always_apart(trainer.name):
        return None
    updates = [point.metrics for point in points[1:] if _is_timed(point) and point.score is None]
    took = [sum(value for name, value in update["seconds"].items() if name != "start_up") for update in updates]
    took = [seconds for seconds in took if seconds > 0]
    if len(took) < FEWEST_UPDATES or min(update["response_tokens"] for update in updates) <= 0:
        return None
    mean, rollouts = _mean(updates, "response_tokens"), trial.rollouts_per_prompt * trial.prompts_per_batch
    return CostRecord(
        **_common(spec, workload, trial, at),
        prompts_per_batch=trial.prompts_per_batch,
        generated_rollouts=rollouts,
        trained_rollouts=rollouts,
        mean_response_tokens=mean,
        longest_response_tokens=mean,
        seconds={WHOLE: statistics.median(took)},
        trainer=trainer.name,
        steps=len(took),
    )


def _common(spec: SweepSpec, workload: dict[str, Any], trial: TrialView, at: datetime) -> dict[str, Any]:
    """Return what a record says of a trial, whatever its updates took."""
    return {
        "at": at,
        "gpu": spec.resources.gpu,
        "generator_gpus": spec.resources.slots,
        "trainer_gpus": spec.resources.slots,
        "colocated": True,
        "model": text_of(trial.axes, MODEL) or str(workload["model"]),
        "recipe": spec.recipe(trial.axes).name,
        "rollouts_per_prompt": trial.rollouts_per_prompt,
        "mean_prompt_tokens": float(workload["prompt_tokens"]),
        "trial_id": trial.trial,
    }


class ShortSegments:
    """Updates of segments with too few to tell a cost, such as a final run's from one validation to the next."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Point]] = {}

    def with_earlier(self, trial: int, points: Sequence[Point]) -> Sequence[Point]:
        """Return a segment's points behind those that wait; where they are too few still, they wait for the next."""
        together = [*self._waiting.pop(trial, ()), *points]
        timed = [point for point in together if _is_timed(point)]
        if len(timed) < FEWEST_UPDATES:
            self._waiting[trial] = timed
        return together


def _is_timed(point: Point) -> bool:
    return point.optimizer_step > 0 and "response_tokens" in point.metrics


def _mean(updates: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.fmean(float(update[name]) for update in updates)
