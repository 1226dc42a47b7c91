"""What the placeholders of a trainer's command stand for."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from budgets.errors import InputError, suggest
from planner.layering import flattened
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED, embedded_task, model_folder
from runner.trainers.command.options import CommandOptions
from runner.trainers.driver import Attempt
from runner.trainers.driving import meeting_port, save_steps, validation_steps

PROBLEMS, VALIDATION_PROBLEMS = "problems.jsonl", "validation_problems.jsonl"
_LONGEST = "max_prompt_tokens"
_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_.]*)\}")


def values_of(config: TrialConfig, options: CommandOptions, attempt: Attempt, rank: int) -> dict[str, str]:
    """Return what each placeholder stands for in one attempt on one machine."""
    task, embedded = config.task, EMBEDDED.get(config.task.name)
    heat, nucleus = task.validation_sampling
    values: dict[str, object] = {
        "rollouts_per_prompt": config.rollouts_per_prompt,
        "prompts_per_batch": config.prompts_per_batch,
        "rollouts_per_step": config.rollouts_per_step,
        "learning_rate": config.learning_rate,
        "warmup_steps": config.warmup,
        "seed": config.seed,
        "temperature": task.temperature,
        "top_p": task.top_p,
        "validation_temperature": heat,
        "validation_top_p": nucleus,
        "gpus_per_node": config.machine.gpus // config.machine.nodes,
        "lora_rank": config.machine.lora_rank or 0,
        "lora_alpha": config.machine.lora_alpha,
        "nodes": config.machine.nodes,
        "validate_every": validation_steps(config),
        "validation_samples": config.validation.samples,
        "recipe": config.recipe.name,
        **{f"recipe.{key}": value for key, value in flattened(config.recipe.model_dump())},
        "reward": task.reward,
        "model": str(model_folder(task.name)) if embedded else task.model,
        _LONGEST: embedded_task(task.name).max_prompt_tokens if embedded else task.prompt_length,
        "max_response_tokens": task.max_response_tokens or (embedded.max_response_tokens if embedded else None),
        "from_step": attempt.from_step,
        "to_step": attempt.to_step,
        "steps": attempt.to_step - attempt.from_step,
        "save_every": save_steps(config, attempt),
        "problems": attempt.folder / PROBLEMS,
        "validation_problems": attempt.folder / VALIDATION_PROBLEMS,
        "folder": attempt.folder,
        "metrics": attempt.metrics,
        "resume_from": attempt.checkpoint or "",
        "here": options.here,
        "python": config.driven_by.python or sys.executable,
        "node_rank": rank,
        "head_address": attempt.hosts[0],
        "head_port": meeting_port(attempt),
    }
    return {name: _written(value) for name, value in values.items() if name != _LONGEST or value is not None}


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put the values in the place of their names; InputError for a name that means nothing."""

    def value(found: re.Match[str]) -> str:
        if found[1] == _LONGEST and _LONGEST not in values:
            raise InputError(f"'{found[0]}' in a trainer's file needs [task] prompt_length, in tokens")
        if found[1] not in values:
            shown = text if len(text) <= 60 else f"{text[:57]}…"
            raise InputError(
                f"'{found[0]}' in '{shown}' is no placeholder of a trainer's file: {suggest(found[1], values)}"
            )
        return values[found[1]]

    return _PLACEHOLDER.sub(value, text)


def _written(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value.absolute()) if isinstance(value, Path) else str(value)
