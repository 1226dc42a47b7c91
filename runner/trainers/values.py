"""What the expressions of a trainer's table may name: a trial, its task, the attempt and the machine.

The sections of a recipe have their own names: `objective`, `optimizer`, `filters` and the others.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.recipes.schema import Recipe
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.tasks.hub import is_hub_name
from runner.trainers.ability import clip_bounds
from runner.trainers.driver import Attempt
from runner.trainers.driving import has_chat, run_names, save_steps, validation_steps
from runner.trainers.spec import TrainerSpec


def values_of(spec: TrainerSpec, config: TrialConfig, task: Task, attempt: Attempt, options: Any) -> dict[str, Any]:
    """Return the values of one attempt; the trainer's steps are batches where it counts those."""
    folder = attempt.folder  # a rehearsal is made where it stands
    folder = folder.absolute() if folder.parts else folder
    low, high = clip_bounds(config.recipe.objective, spec.clip_lowest, spec.clip_highest)
    updates = config.recipe.schedule.updates_per_batch
    return {
        **sections_of(config.recipe),
        **spec.maps,
        **trial_values(config),
        "updates": updates,
        "warmup_batches": -(-config.warmup // updates),  # where a batch has one rate for all of its updates
        "validation": config.validation,
        "clip_low": low,
        "clip_high": high,
        **_of_steps(spec, config, attempt, getattr(options, "save_steps", None)),
        **_of_task(config, task, folder),
        "folder": str(folder),
        "overlong": round(config.recipe.rewards.overlong_share * task.max_response_tokens),
        "python_path": os.environ.get("PYTHONPATH", ""),
        "machine": config.machine,
        "options": options,
    }


def trial_values(config: TrialConfig) -> dict[str, Any]:
    """Return what every trainer may be told of a trial, also one that a file of the user's own describes."""
    heat, nucleus = config.task.validation_sampling
    return {
        "rollouts_per_prompt": config.rollouts_per_prompt,
        "prompts_per_batch": config.prompts_per_batch,
        "rollouts_per_step": config.rollouts_per_step,
        "learning_rate": config.learning_rate,
        "warmup_steps": config.warmup,
        "seed": config.seed,
        "temperature": config.task.temperature,
        "top_p": config.task.top_p,
        "validation_temperature": heat,
        "validation_top_p": nucleus,
        "gpus_per_node": config.machine.gpus // config.machine.nodes,
    }


def _of_steps(spec: TrainerSpec, config: TrialConfig, attempt: Attempt, saves: int | None) -> dict[str, Any]:
    """Return from where to where an attempt goes, and what comes how often; `saves`: updates between, as asked for."""
    each = config.recipe.schedule.updates_per_batch if spec.counts_batches else 1
    trial, sweep = run_names(attempt)
    return {
        "validate_every": max(1, validation_steps(config) // each),
        "save_every": max(1, save_steps(config, attempt, saves) // each),
        "trains_on": attempt.trains_on,
        "save_seconds": config.driven_by.saves_every,
        "from_step": attempt.from_step // each,
        "to_step": -(-attempt.to_step // each),
        "attempt": attempt.number,
        "resumes": attempt.checkpoint is not None,
        "checkpoint": None if attempt.checkpoint is None else str(attempt.checkpoint.absolute()),
        "metrics": attempt.metrics.name,
        "trial": trial,
        "sweep": sweep,
    }


def _of_task(config: TrialConfig, task: Task, folder: Path) -> dict[str, Any]:
    """Return the model, its tokenizer, the problems and their lengths."""
    embedded = config.task.name in EMBEDDED
    named = is_hub_name(task.model_path) and task.chat_template is None
    return {
        "model": task.model_path,
        "laid_model": task.model_path if named else str(folder / "model"),  # with its tokenizer, as inside.py lays it
        "tokenizer": str(folder / "tokenizer") if embedded else task.model_path,
        "has_chat": has_chat(task),
        "end_id": task.tokenizer.end_id,
        "task": config.task.name,
        "embedded": embedded,
        "train_problems": len(task.train),
        "validation_problems": min(config.validation.problems, len(task.validation)),
        "chat_template": task.chat_template,
        "max_prompt_tokens": task.max_prompt_tokens,
        "max_response_tokens": task.max_response_tokens,
        "max_tokens": task.max_prompt_tokens + task.max_response_tokens,
    }


def run_of(values: Mapping[str, Any], tracker: str | None) -> dict[str, Any]:
    """Return what a program of ours in the trainer's interpreter is told in run.json; steps are the trainer's own."""
    names = ("metrics", "from_step", "to_step", "updates", "rollouts_per_prompt", "save_seconds", "model", "end_id")
    return {
        **{name: values[name] for name in names},
        **({"save_every": values["save_every"]} if values["trains_on"] else {}),
        "tracker": tracker,
        "samples": values["validation"].samples,
        "advantage": values["advantage"].model_dump(),
        "mask_truncated": values["rewards"].mask_truncated,
        "skip_special_tokens": not values["embedded"],  # in ours they are characters that no answer has
        "order": values.get("order"),
    }


def sections_of(recipe: Recipe) -> dict[str, Any]:
    """Return the sections of a recipe by their names."""
    names = ("advantage", "objective", "rewards", "filters", "schedule", "optimizer", "precision")
    return {name: getattr(recipe, name) for name in names}
