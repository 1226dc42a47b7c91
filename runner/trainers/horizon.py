"""Trainers that get data as long as any trial may become, and share the GPUs between training and vLLM.

Their own order, schedule or end depends on how long their data are: so neither a pause nor an epoch reorders the
problems. The file that inside.py writes has each problem once; its InOrder is as long as the horizon.
"""

from typing import Any

from budgets.errors import InputError
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.spec import TABLED, TrainerSpec
from runner.training.building import rates_in_order

# Prompts that there are for each prompt of an update: some are left out where groups without signal are replaced.
_SPARE = {"keep": 1, "drop": 1, "refill": 4}


def horizon_values(config: TrialConfig, task: Task, options: Any) -> dict[str, Any]:
    """Return what the expressions of such a trainer's table may name beside the others.

    Each batch may be several updates; `order` is what the order of the prompts follows from, which make whole batches.
    """
    updates = config.recipe.schedule.updates_per_batch
    batches = -(-options.horizon_steps // updates)
    horizon_updates = batches * updates * _SPARE[config.recipe.filters.zero_variance]
    order = {
        "count": len(task.train),
        "seed": config.seed,
        "rows": horizon_updates * config.prompts_per_batch,
        "pass_rates": rates_in_order(config, task),
    }
    return {"batches": batches, "horizon_updates": horizon_updates, "order": order}


def require_within(config: TrialConfig, attempt: Attempt, options: Any) -> None:
    """Refuse a segment that ends beyond the horizon."""
    if attempt.to_step > options.horizon_steps:
        raise InputError(
            f"step {attempt.to_step} lies beyond [trainer.options] horizon_steps = {options.horizon_steps}, for which "
            f"the data of {config.driven_by.name} are made: give the next sweep longer ones"
        )


def horizon_of(config: TrialConfig) -> int | None:
    """Return the update that a trial's data last to; None where they never end."""
    trainer = config.trainer
    if trainer is None or trainer.name not in TABLED or not (spec := TrainerSpec.load(trainer.name)).horizon:
        return None
    return int(trainer.options.get("horizon_steps", spec.options["horizon_steps"].default))


def reaching(config: TrialConfig, to_step: int) -> TrialConfig:
    """Return a trial from the base model whose data are long enough; the same one where they are, or it needs none.

    Longer data have another order, so that no checkpoint made with a shorter one is gone on from.
    """
    horizon, trainer = horizon_of(config), config.trainer
    if trainer is None or horizon is None or to_step <= horizon:
        return config
    longer = trainer.model_copy(update={"options": {**trainer.options, "horizon_steps": to_step}})
    return config.model_copy(update={"trainer": longer})
