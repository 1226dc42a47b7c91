"""[trainer.options] that trainers share, and what several of them refuse alike."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from budgets.errors import InputError
from planner.tables import Count, Positive, Section, explained
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.job import Job, has_chat

OptionsT = TypeVar("OptionsT", bound=BaseModel)


class Options(Section):
    """[trainer.options] of every trainer."""

    settings: dict[str, Any] = Field({}, description="further keys of its own, which must not be ours")


class PassOptions(Options):
    """[trainer.options] of a trainer whose passes have a number of rollouts."""

    rollouts_per_pass: Count | None = Field(
        None, description="rollouts of one forward and backward pass; else by micro_batch_tokens"
    )


class SplitOptions(Options):
    """[trainer.options] of a trainer that may train on some GPUs while it generates on others."""

    train_gpus: Count | None = Field(
        None, description="GPUs that train where others generate at the same time; else as the plan's price has"
    )


class HorizonOptions(PassOptions):
    """[trainer.options] of a trainer whose data are as long as any trial may become, with vLLM."""

    horizon_steps: Count = Field(
        2000, description="updates that its data last for: no trial goes further, and all have the same"
    )
    vllm_gpus: int = Field(
        0, ge=0, description="GPUs of vLLM alone; 0: it shares all, or has what the price says with a bound"
    )
    vllm_memory: Positive | None = Field(None, description="share of a GPU that vLLM takes; else by what is there")
    tensor_parallel: Count | None = Field(None, description="GPUs of one vLLM engine; else by the memory")


def options_in(config: TrialConfig, model: type[OptionsT], where: str | None = None) -> OptionsT:
    """Return the checked `[trainer.options]` of a trial; ConfigError says what is wrong with them, and where."""
    try:
        return model.model_validate(config.driven_by.options)
    except ValidationError as error:
        raise explained(error, model, {}, where or f"[trainer.options] of {config.driven_by.name}") from error


def refuse(config: TrialConfig, title: str, remedies: Mapping[str, str]) -> None:
    """Refuse what of a trial's configuration this trainer cannot do, each by its dotted key with what to do instead.

    None has a batch that grows, and none a simulated world.
    """
    none = {"growth": f"{title}'s batch is constant: leave it out"}
    none["simulation"] = f"{title} trains a model: use --trainer standin"
    for key, remedy in (none | dict(remedies)).items():
        value: Any = config
        for part in key.split("."):
            value = getattr(value, part)
        if value and value != "none":
            raise InputError(f"{key} with --trainer {config.driven_by.name}: {remedy}")


def require_chat(task: Task, title: str, instead: str = "take a model that has one") -> None:
    """Refuse a model without a chat template, where the trainer makes every prompt a turn of a chat."""
    if not has_chat(task):
        raise InputError(f"{task.model_path} has no chat template, and {title} asks in chats: {instead}")


def require_equal_shares(config: TrialConfig, gpus: int) -> None:
    """Refuse an update whose rollouts cannot be shared out to the GPUs that train, naming the nearest that can."""
    made, n, B = config.rollouts_per_step, config.rollouts_per_prompt, config.prompts_per_batch
    if made % gpus:
        step = gpus // math.gcd(n, gpus)
        near = sorted({max(step, B // step * step), (B // step + 1) * step})
        fewer = max(count for count in range(1, gpus) if made % count == 0)
        raise InputError(
            f"n = {n} · B = {B} = {made} rollouts on {gpus} GPUs: each has as many of them in an update. Use "
            f"B = {' or '.join(map(str, near))}, or {fewer} GPUs"
        )


def without_vllm(title: str, job: Job, tensor_parallel: int | None) -> Iterator[str]:
    """Yield what keeps a trainer that generates with vLLM alone from running a job."""
    machine, gpus = job.machine, job.generators or job.machine.gpus
    if machine.device != "cuda" or machine.engine != "vllm":
        yield (
            f"machine.device = '{machine.device}' and machine.engine = '{machine.engine}': {title} trains on GPUs, "
            "with vLLM; set 'cuda' and 'vllm'"
        )
    if gpus % (tensor_parallel or 1) > 0:
        yield (f"[trainer.options] tensor_parallel = {tensor_parallel}: it must divide the {gpus} GPUs that vLLM has")


def require_within(config: TrialConfig, attempt: Attempt, options: Any) -> None:
    """Refuse a segment that ends beyond the horizon."""
    if attempt.to_step > options.horizon_steps:
        raise InputError(
            f"step {attempt.to_step} lies beyond [trainer.options] horizon_steps = {options.horizon_steps}, for which "
            f"the data of {config.driven_by.name} are made: give the next sweep longer ones"
        )


def absolute_reference(option: str, text: str) -> str:
    """Return a name that the trainer's own environment can load, where a file's is absolute."""
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise InputError(
            f"[trainer.options] {option} = '{text}': give it as package.module:name or path/to/file.py:name"
        )
    file = Path(place).expanduser().absolute()
    if not place.endswith(".py"):
        return text
    if not file.is_file():
        raise InputError(f"[trainer.options] {option} = '{text}': there is no file {file}")
    return f"{file}:{name}"
