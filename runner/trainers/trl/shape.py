"""How the rollouts of an update are spread over processes and passes, and what of a trial's layout TRL cannot run."""

import math
from dataclasses import dataclass

from budgets.errors import InputError
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driving import refuse
from runner.trainers.trl.options import TrlOptions


@dataclass(frozen=True, slots=True)
class Shape:
    """Processes × passes × rollouts of a pass = n · B."""

    processes: int
    passes: int
    rollouts_per_pass: int


def shape_of(config: TrialConfig, options: TrlOptions, task: Task) -> Shape:
    """Return as large passes as micro_batch_tokens, or the options, allow."""
    each = config.rollouts_per_step // config.machine.gpus
    longest = task.max_prompt_tokens + task.max_response_tokens
    most = options.rollouts_per_pass or max(1, config.machine.micro_batch_tokens // longest)
    rows = max(size for size in range(1, min(each, most) + 1) if each % size == 0)
    return Shape(config.machine.gpus, each // rows, rows)


def require_runnable(config: TrialConfig) -> None:
    """Refuse a layout that TRL cannot run, naming the nearest that it can."""
    machine, made = config.machine, config.rollouts_per_step
    if made % machine.gpus:
        n, B = config.rollouts_per_prompt, config.prompts_per_batch
        step = machine.gpus // math.gcd(n, machine.gpus)
        near = sorted({max(step, B // step * step), (B // step + 1) * step})
        fewer = max(count for count in range(1, machine.gpus) if made % count == 0)
        raise InputError(
            f"n = {n} · B = {B} = {made} rollouts on {machine.gpus} GPUs: each of TRL's processes has as many. Use "
            f"B = {' or '.join(map(str, near))}, or {fewer} GPUs"
        )
    remedies = {
        "growth": "TRL's batch is constant: leave it out",
        "machine.split": "TRL generates and trains in the same processes: set false",
        "machine.compile": "set torch_compile in [trainer.options.settings] instead",
        "simulation": "TRL trains a model: use --trainer standin",
    }
    refuse(config, remedies)
    if machine.engine == "vllm" and machine.device == "cpu":
        raise InputError("machine.engine = 'vllm' on a CPU with --trainer trl: TRL has vLLM on GPUs only; use torch")
