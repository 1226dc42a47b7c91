"""Trainers that get data as long as any trial may become, and share the GPUs between training and vLLM.

Their own order, schedule or end depends on how long their data are: so neither a pause nor an epoch reorders the
problems. The file that inside.py writes has each problem once; its InOrder is as long as the horizon.
"""

from typing import Annotated, Any

from pydantic import Field

from budgets.errors import InputError
from planner.checking import Count, Positive, Section
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import refuse
from runner.trainers.spec import TABLED, TrainerSpec
from runner.training.building import rates_in_order

# Prompts that there are for each prompt of an update: some are left out where groups without signal are replaced.
_SPARE = {"keep": 1, "drop": 1, "refill": 4}


class HorizonOptions(Section):
    """How such a trainer runs, of which nothing but `settings` and `horizon_steps` changes what it computes."""

    horizon_steps: Count = Field(
        2000, description="updates that its data are long enough for: no trial goes further, and all have the same"
    )
    rollouts_per_pass: Count | None = Field(
        None, description="rollouts of one forward and backward pass; else by micro_batch_tokens"
    )
    vllm_gpus: Annotated[int, Field(ge=0)] = Field(
        0,
        description="GPUs that vLLM has to itself; 0: it shares all, or has what the price says with a bound",
    )
    vllm_memory: Positive | None = Field(None, description="share of a GPU that vLLM takes; else by what is there")
    tensor_parallel: Count | None = Field(None, description="GPUs of one vLLM engine; else by the memory")
    settings: dict[str, Any] = Field(
        {}, description="further keys of the trainer, or its flags without dashes, by their names; none of ours"
    )


def horizon_values(config: TrialConfig, task: Task, options: HorizonOptions) -> dict[str, Any]:
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


def require_within(config: TrialConfig, attempt: Attempt, options: HorizonOptions) -> None:
    """Refuse a segment that ends beyond the horizon."""
    if attempt.to_step > options.horizon_steps:
        raise InputError(
            f"step {attempt.to_step} lies beyond [trainer.options] horizon_steps = {options.horizon_steps}, for which "
            f"the data of {config.driven_by.name} are made: give the next sweep longer ones"
        )


def reaching(config: TrialConfig, to_step: int) -> TrialConfig:
    """Return a trial from the base model whose data are long enough; the same one where they are, or it needs none.

    Longer data have another order, so that no checkpoint made with a shorter one is gone on from.
    """
    trainer = config.trainer
    if trainer is None or trainer.name not in TABLED or not TrainerSpec.load(trainer.name).horizon:
        return config
    if to_step <= trainer.options.get("horizon_steps", HorizonOptions().horizon_steps):
        return config
    longer = trainer.model_copy(update={"options": {**trainer.options, "horizon_steps": to_step}})
    return config.model_copy(update={"trainer": longer})


def require_shared(config: TrialConfig, options: HorizonOptions, trainer: str, apart: int) -> None:
    """Refuse a machine that such a trainer cannot use, or engines that do not fit; `apart`: those of vLLM alone."""
    refuse(config, trainer, {"machine.compile": f"rlplan does not have {trainer} compile the model: set false"})
    machine = config.machine
    if machine.device != "cuda" or machine.engine != "vllm":
        given = f"machine.device = '{machine.device}' and machine.engine = '{machine.engine}'"
        raise InputError(f"{given}: {trainer} trains on GPUs, with vLLM; set 'cuda' and 'vllm'")
    if (apart or machine.gpus) % (options.tensor_parallel or 1):
        raise InputError(
            f"[trainer.options] tensor_parallel = {options.tensor_parallel}: it must divide the "
            f"{apart or machine.gpus} GPUs that vLLM has"
        )
