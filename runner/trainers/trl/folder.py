"""What stands in a trial's folder for TRL: the programs, our rewards, the problems, the tokenizer and run.json."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from budgets.errors import InputError
from budgets.memory import FUSED
from budgets.memory_plan import Means, MemoryPlan
from planner.checking import Count, Positive, Section
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.driver import Attempt
from runner.trainers.driving import (
    has_chat,
    meeting_port,
    merged,
    options_in,
    require_equal_shares,
    rollouts_per_pass,
    run_names,
    warmup_steps,
)
from runner.trainers.fitting import fitted
from runner.trainers.inside import MARK
from runner.trainers.inside import PARTS as INSIDE
from runner.trainers.laying import judged_files, parts, programs
from runner.trainers.trl.recipes import recipe_settings
from runner.training.building import open_stream

MEANS = Means(None, heads=(FUSED,), sleeps=False)
_VLLM = ("vllm_gpu_memory_utilization", "vllm_tensor_parallel_size", "vllm_enable_sleep_mode")
HORIZON = 1_000_000  # updates; nothing depends on it, since the rate is constant
PARTS = (  # of rlplan, beside those of the reward
    *INSIDE,
    "runner/trainers/trl/__init__.py",
    "runner/trainers/trl/following.py",
)


class TrlOptions(Section):
    """How TRL runs, of which nothing but `settings` changes what it computes."""

    hold: bool = Field(True, description="wait at a segment's end with the model in memory; false: save and end")
    rollouts_per_pass: Count | None = Field(
        None, description="rollouts of one forward and backward pass; else by micro_batch_tokens"
    )
    accelerate: str | None = Field(None, description="accelerate's configuration file; else FSDP2 on several GPUs")
    vllm_memory: Positive | None = Field(None, description="share of a GPU that vLLM takes; else by what is there")
    settings: dict[str, Any] = Field({}, description="further arguments of GRPOConfig, which must not be ours")


def require_runnable(config: TrialConfig) -> None:
    """Refuse a layout that TRL cannot run, naming the nearest that it can."""
    machine = config.machine
    require_equal_shares(config, machine.gpus)
    if machine.engine == "vllm" and machine.device == "cpu":
        raise InputError("machine.engine = 'vllm' on a CPU with --trainer trl: TRL has vLLM on GPUs only; use torch")


def files_of(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
    """Return every file of an attempt by its path in the folder."""
    return {
        **judged_files(config, task, config.machine.gpus // config.machine.nodes),
        **programs("trl", "start.py", "train.py"),
        **parts(PARTS),
        "run.json": json.dumps(run_of(config, task, attempt), indent=1),
    }


def run_of(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, Any]:
    """Return what the programs are told."""
    assert config.trainer is not None
    options, machine, recipe = options_in(config, TrlOptions), config.machine, config.recipe
    embedded = config.task.name in EMBEDDED
    open_stream(config, task)  # which refuses a curriculum whose pass rates are not known
    eased = recipe.filters.curriculum == "easy-to-hard"
    plan = _plan(config, task, options)
    sampled = dict(zip(("temperature", "top_p"), config.task.validation_sampling, strict=True))
    return {
        "attempt": attempt.number,
        "from_step": attempt.from_step,
        "to_step": attempt.to_step,
        "checkpoint": str(attempt.checkpoint) if attempt.checkpoint is not None else None,
        "response_tokens": _said_at(attempt.checkpoint),
        "metrics": attempt.metrics.name,
        "hold": options.hold,
        "save_seconds": config.trainer.save_seconds,
        "threads": int(config.trainer.environment.get("OMP_NUM_THREADS", machine.threads)),
        "launch": {
            "processes": machine.gpus,
            "machines": len(attempt.hosts),
            "head": attempt.hosts[0],
            "port": meeting_port(attempt),
            "accelerate": _existing(options.accelerate),
            "mixed_precision": "bf16" if machine.weights == "bfloat16" else "no",
            "fsdp_offload": None if plan is None or machine.gpus == 1 else plan.offload,
        },
        "model": task.model_path,
        "tokenizer": "tokenizer" if embedded else task.model_path,
        "end_id": task.tokenizer.end_id,
        "skip_special_tokens": not embedded,  # in ours they are characters that no answer has
        "chat": has_chat(task),
        "chat_template": task.chat_template,
        "train_problems": len(task.train),
        "pass_rates": list(task.base_pass_rates) if eased and task.base_pass_rates is not None else None,
        "seed": config.seed,
        "rollouts_per_prompt": config.rollouts_per_prompt,
        "prompts_per_batch": config.prompts_per_batch,
        "rollouts_per_step": config.rollouts_per_step,
        "updates_per_batch": recipe.schedule.updates_per_batch,
        "warmup_steps": warmup_steps(config),
        "validation": {**config.validation.model_dump(), **sampled, "rows": config.rollouts_per_step // machine.gpus},
        "lora": {"r": machine.lora_rank, "lora_alpha": machine.lora_alpha} if machine.lora_rank else None,
        "settings": _settings(config, task, attempt, options, plan),
    }


def _plan(config: TrialConfig, task: Task, options: TrlOptions) -> MemoryPlan | None:
    """Return the memory plan of a trial on GPUs; a single one cannot offload its optimizer."""
    machine = config.machine
    if machine.device == "cpu":
        return None
    means = replace(MEANS, offloads=machine.gpus > 1 and options.accelerate is None)
    return fitted(config, task, means, _VLLM, options.settings, required=options.accelerate is None)


def memory_keys(plan: MemoryPlan) -> dict[str, Any]:
    """Return the arguments by which vLLM fits beside the training's states, and training once vLLM sleeps."""
    return dict(zip(_VLLM, (plan.engine_share, plan.engine_gpus, True), strict=True))


def _settings(
    config: TrialConfig, task: Task, attempt: Attempt, options: TrlOptions, plan: MemoryPlan | None
) -> dict[str, Any]:
    machine = config.machine
    tokens = machine.micro_batch_tokens if plan is None else plan.tokens
    rows = rollouts_per_pass(config, task, tokens, options.rollouts_per_pass)
    passes = config.rollouts_per_step // machine.gpus // rows
    ours: dict[str, Any] = {
        "output_dir": ".",
        "seed": config.seed,
        "max_steps": HORIZON,
        "num_generations": config.rollouts_per_prompt,
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": passes,
        "steps_per_generation": passes * config.recipe.schedule.updates_per_batch,
        "max_completion_length": task.max_response_tokens,
        "temperature": config.task.temperature,
        "top_p": config.task.top_p,
        "reward_weights": [1.0, 0.0],
        "shuffle_dataset": False,
        "ignore_data_skip": True,  # the order begins where the checkpoint stands
        "disable_dropout": True,
        "use_cpu": machine.device == "cpu",
        "bf16": machine.weights == "bfloat16",
        "cast_lm_head_to_fp32": config.recipe.precision.fp32_head and machine.weights == "bfloat16",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "eval_strategy": "no",
        "run_name": run_names(attempt)[0],
        "disable_tqdm": True,
        **recipe_settings(config),
    }
    on_gpu = plan is not None
    free: dict[str, Any] = {"activation_checkpointing": on_gpu, "dataloader_pin_memory": on_gpu}
    free["report_to"] = "none"
    if machine.engine == "vllm" and plan is not None:
        ours |= {"use_vllm": True, "vllm_mode": "colocate"}
        free |= memory_keys(plan)
        free["vllm_max_model_length"] = task.max_prompt_tokens + task.max_response_tokens
        free["vllm_gpu_memory_utilization"] = options.vllm_memory or plan.engine_share
    return merged({**ours, **free}, options.settings, free)


def _existing(path: str | None) -> str | None:
    if path is None:
        return None
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        raise InputError(f"[trainer.options] accelerate = '{path}': there is no file {file}")
    return str(file)


def _said_at(checkpoint: Path | None) -> float | None:
    if checkpoint is None:
        return None
    mark: Mapping[str, Any] = json.loads((checkpoint / MARK).read_text(encoding="utf-8"))
    length: float | None = mark["response_tokens"]
    return length
