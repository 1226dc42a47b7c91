"""A data file as long as any trial may become, in the plan's order: then neither a pause nor an epoch reorders it.

For trainers whose own order, schedule or end depends on how long their data are. inside.py writes the file.
"""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from budgets.errors import InputError
from planner.checking import Count, Positive, Section
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import asked_itself, validation_steps
from runner.training.building import open_stream

# Prompts that the file holds for each prompt of an update: some are left out where groups without signal are replaced.
_SAID = 2000  # of its last characters
_SPARE = {"keep": 1, "drop": 1, "refill": 4}
WITH_HORIZON = ("openrlhf", "skyrl")
_OURS = ("horizon_steps", "save_seconds")


class HorizonOptions(Section):
    """What is set for each trainer that gets such a file."""

    horizon_steps: Count = Field(
        2000, description="updates that its data file is long enough for: no trial goes further, and all have the same"
    )
    save_seconds: Positive = Field(600.0, description="between saves within a segment")


def batches_of(config: TrialConfig, options: HorizonOptions) -> int:
    """Return how many batches of rollouts the horizon has, of which each may be several updates."""
    return -(-options.horizon_steps // config.recipe.schedule.updates_per_batch)


def rows_of(config: TrialConfig, options: HorizonOptions) -> int:
    """Return the prompts of the data file, which make whole batches."""
    batch = config.prompts_per_batch * config.recipe.schedule.updates_per_batch
    return batches_of(config, options) * batch * _SPARE[config.recipe.filters.zero_variance]


def validation_batches(config: TrialConfig) -> int:
    """Return the batches between validations, which such a trainer counts as its steps."""
    return max(1, validation_steps(config) // config.recipe.schedule.updates_per_batch)


def order_of(config: TrialConfig, task: Task, options: HorizonOptions) -> dict[str, Any]:
    """Return what the order of the file follows from."""
    open_stream(config, task)  # which refuses a curriculum whose pass rates are not known
    eased = config.recipe.filters.curriculum == "easy-to-hard" and task.base_pass_rates is not None
    return {
        "count": len(task.train),
        "seed": config.seed,
        "rows": rows_of(config, options),
        "pass_rates": list(task.base_pass_rates or ()) if eased else None,
    }


def require_within(config: TrialConfig, attempt: Attempt, options: HorizonOptions) -> None:
    """Refuse a segment that ends beyond the file."""
    if attempt.to_step > options.horizon_steps:
        assert config.trainer is not None
        raise InputError(
            f"step {attempt.to_step} lies beyond [trainer.options] horizon_steps = {options.horizon_steps}, for which "
            f"the data file of {config.trainer.name} is made: give the next sweep a longer one"
        )


def reaching(config: TrialConfig, to_step: int) -> TrialConfig:
    """Return a trial from the base model whose data file is long enough; the same one where it is, or needs none.

    A longer file has another order, so that no checkpoint made with a shorter one is gone on from.
    """
    trainer = config.trainer
    if trainer is None or trainer.name not in WITH_HORIZON:
        return config
    known = HorizonOptions.model_validate({key: trainer.options[key] for key in _OURS if key in trainer.options})
    if to_step <= known.horizon_steps:
        return config
    longer = trainer.model_copy(update={"options": {**trainer.options, "horizon_steps": to_step}})
    return config.model_copy(update={"trainer": longer})


def within(attempt: Attempt) -> dict[str, str]:
    """Return the variables with which programs of ours find their modules, and write nothing outside the folder."""
    path = os.pathsep.join(filter(None, (str(attempt.folder / "parts"), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "HF_DATASETS_CACHE": str(attempt.folder / "datasets")}


def refused(config: TrialConfig, files: Mapping[str, str]) -> list[str]:
    """Have start.py show the trainer's own parser what a first attempt would be given; return what that refuses."""
    code, said = asked_itself(config, files, "start.py", "--rehearse")
    return [] if code == 0 else [said[-_SAID:]]
