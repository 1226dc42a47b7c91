"""What stands in a trial's folder for TRL: the programs, our rewards, the problems, the tokenizer and run.json."""

import json
import os
import zlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.tasks.tokenizers import character_tokenizer_files
from runner.trainers.driver import Attempt
from runner.trainers.driving import has_chat, merged, warmup_steps
from runner.trainers.laying import REWARD_PARTS, parts, problem_lines, reward_of
from runner.trainers.trl.options import options_of
from runner.trainers.trl.recipes import recipe_settings
from runner.trainers.trl.shape import Shape, shape_of
from runner.training.building import open_stream

HORIZON = 1_000_000  # updates; nothing depends on it, since the rate is constant
PROGRAMS = ("start.py", "train.py")
PARTS = (  # of rlplan, beside those of the reward
    *REWARD_PARTS,
    "runner/grpo/__init__.py",
    "runner/grpo/advantages.py",
    "runner/trainers/__init__.py",
    "runner/trainers/trl/__init__.py",
    "runner/trainers/trl/following.py",
    "runner/training/__init__.py",
    "runner/training/prompts.py",
)
_PORTS = 20_000, 10_000  # where several machines meet: the first, and how many


def files_of(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
    """Return every file of an attempt by its path in the folder."""
    own = files("runner.trainers.trl")
    tokenizer = character_tokenizer_files() if config.task.name in EMBEDDED else {}
    return {
        **{name: own.joinpath(name).read_text(encoding="utf-8") for name in PROGRAMS},
        **parts(PARTS),
        **{f"tokenizer/{name}": text for name, text in tokenizer.items()},
        "problems.jsonl": problem_lines(config, task),
        "run.json": json.dumps(run_of(config, task, attempt), indent=1),
    }


def run_of(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, Any]:
    """Return what the programs are told."""
    options, machine, recipe = options_of(config), config.machine, config.recipe
    shape = shape_of(config, options, task)
    embedded = config.task.name in EMBEDDED
    open_stream(config, task)  # which refuses a curriculum whose pass rates are not known
    eased = recipe.filters.curriculum == "easy-to-hard"
    return {
        "attempt": attempt.number,
        "from_step": attempt.from_step,
        "to_step": attempt.to_step,
        "checkpoint": str(attempt.checkpoint) if attempt.checkpoint is not None else None,
        "response_tokens": _said_at(attempt.checkpoint),
        "metrics": attempt.metrics.name,
        "hold": options.hold,
        "save_seconds": options.save_seconds,
        "threads": machine.threads,
        "launch": {
            "processes": machine.gpus,
            "machines": len(attempt.hosts),
            "head": attempt.hosts[0],
            "port": _PORTS[0] + zlib.crc32(f"{attempt.folder}/{attempt.number}".encode()) % _PORTS[1],
            "accelerate": _existing(options.accelerate),
            "mixed_precision": "bf16" if machine.weights == "bfloat16" else "no",
        },
        "model": str(Path(task.model_path).absolute()),
        "tokenizer": "tokenizer" if embedded else str(Path(task.model_path).absolute()),
        "end_id": task.tokenizer.end_id,
        "skip_special_tokens": not embedded,  # in ours they are characters that no answer has
        "chat": has_chat(task),
        "longest": task.max_response_tokens,
        "train_problems": len(task.train),
        "pass_rates": list(task.base_pass_rates) if eased and task.base_pass_rates is not None else None,
        "seed": config.seed,
        "rollouts_per_prompt": config.rollouts_per_prompt,
        "prompts_per_batch": config.prompts_per_batch,
        "rollouts_per_step": config.rollouts_per_step,
        "updates_per_batch": recipe.schedule.updates_per_batch,
        "warmup_steps": warmup_steps(config),
        "reward": reward_of(config),
        "shaping": recipe.rewards.model_dump(),
        "validation": {**config.validation.model_dump(), "rows": shape.passes * shape.rollouts_per_pass},
        "settings": _settings(config, task, shape),
        "paths": [os.getcwd()],  # for a reward that is a module of the user's
    }


def _settings(config: TrialConfig, task: Task, shape: Shape) -> dict[str, Any]:
    options, machine = options_of(config), config.machine
    ours: dict[str, Any] = {
        "output_dir": ".",
        "seed": config.seed,
        "max_steps": HORIZON,
        "num_generations": config.rollouts_per_prompt,
        "per_device_train_batch_size": shape.rollouts_per_pass,
        "gradient_accumulation_steps": shape.passes,
        "steps_per_generation": shape.passes * config.recipe.schedule.updates_per_batch,
        "max_completion_length": task.max_response_tokens,
        "temperature": config.temperature,
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
        "report_to": "none",
        "disable_tqdm": True,
        **recipe_settings(config),
    }
    free: dict[str, Any] = {"activation_checkpointing": False, "dataloader_pin_memory": machine.device == "cuda"}
    if machine.engine == "vllm":
        ours |= {"use_vllm": True, "vllm_mode": "colocate"}
        free["vllm_gpu_memory_utilization"] = options.vllm_memory
        free["vllm_max_model_length"] = task.max_prompt_tokens + task.max_response_tokens
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
    mark: Mapping[str, Any] = json.loads((checkpoint / "complete.json").read_text(encoding="utf-8"))
    length: float | None = mark["response_tokens"]
    return length
