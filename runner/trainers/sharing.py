"""How the GPUs of a trial are shared between training and vLLM, for trainers that place both themselves."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from budgets.errors import InputError
from planner.checking import Count, Positive
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driving import refuse
from runner.trainers.horizon import HorizonOptions


class SharingOptions(HorizonOptions):
    """What is set for each trainer of this kind."""

    rollouts_per_pass: Count | None = Field(
        None, description="rollouts of one forward and backward pass; else by micro_batch_tokens"
    )
    vllm_gpus: Annotated[int, Field(ge=0)] = Field(
        0, description="GPUs that vLLM has to itself; 0: it shares all of them with the training"
    )
    vllm_memory: Positive = Field(0.5, description="share of a GPU's memory that vLLM takes")
    tensor_parallel: Count = Field(1, description="GPUs of one vLLM engine")


@dataclass(frozen=True, slots=True)
class Share:
    """Who has which GPUs."""

    nodes: int  # that train
    gpus_per_node: int  # of each of these
    engines: int  # of vLLM
    apart: bool  # whether vLLM's GPUs are its own


def share_of(config: TrialConfig, options: SharingOptions) -> Share:
    """Return who has which GPUs; vLLM's own are the last nodes, or the last GPUs of a single one."""
    machine, apart = config.machine, options.vllm_gpus > 0
    trainers = machine.gpus - options.vllm_gpus
    nodes = machine.nodes * trainers // machine.gpus if apart else machine.nodes
    nodes = max(1, nodes)
    return Share(nodes, trainers // nodes, (options.vllm_gpus or machine.gpus) // options.tensor_parallel, apart)


def rollouts_per_pass(config: TrialConfig, task: Task, options: SharingOptions) -> int:
    """Return as many as micro_batch_tokens, or the options, allow; all passes are of that size."""
    each = config.rollouts_per_step // (config.machine.gpus - options.vllm_gpus)
    longest = task.max_prompt_tokens + task.max_response_tokens
    most = options.rollouts_per_pass or max(1, config.machine.micro_batch_tokens // longest)
    return max(size for size in range(1, min(each, most) + 1) if each % size == 0)


def require_shared(config: TrialConfig, options: SharingOptions, trainer: str) -> None:
    """Refuse a layout that such a trainer cannot run, naming what it can."""
    remedies = {
        "growth": f"{trainer}'s batch is constant: leave it out",
        "machine.split": "set [trainer.options] vllm_gpus, the GPUs that vLLM has to itself",
        "machine.compile": f"rlplan does not have {trainer} compile the model: set false",
        "simulation": f"{trainer} trains a model: use --trainer standin",
    }
    refuse(config, remedies)
    machine, apart = config.machine, options.vllm_gpus
    if machine.device != "cuda" or machine.engine != "vllm":
        given = f"machine.device = '{machine.device}' and machine.engine = '{machine.engine}'"
        raise InputError(f"{given}: {trainer} trains on GPUs, with vLLM; set 'cuda' and 'vllm'")
    trainers, per_node = machine.gpus - apart, machine.gpus // machine.nodes
    if trainers < 1:
        raise InputError(f"[trainer.options] vllm_gpus = {apart} of {machine.gpus} GPUs: at least one must train")
    if apart and machine.nodes > 1 and trainers % per_node:
        raise InputError(
            f"[trainer.options] vllm_gpus = {apart} on {machine.nodes} nodes of {per_node} GPUs: it takes whole nodes, "
            f"a multiple of {per_node}"
        )
    if (apart or machine.gpus) % options.tensor_parallel:
        raise InputError(
            f"[trainer.options] tensor_parallel = {options.tensor_parallel}: it must divide the "
            f"{apart or machine.gpus} GPUs that vLLM has"
        )
    if config.rollouts_per_step % trainers:
        raise InputError(
            f"n · B = {config.rollouts_per_step} rollouts on {trainers} GPUs: each has as many of them in an update, "
            f"so n · B must be a multiple of {trainers}"
        )
