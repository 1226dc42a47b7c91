"""What the file of a trainer of one's own says: its command, its metrics, its checkpoints; see docs/trainers.md."""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from budgets.errors import InputError, suggest
from planner.tables import Section, flattened
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED, embedded_task, model_folder
from runner.trainers.checkpoints import IDENTITY
from runner.trainers.driver import GATE, WAITING, Attempt
from runner.trainers.job import save_steps, validation_steps
from runner.trainers.launch import meeting_port

STEP = "{step}"
# What a reading can hold; further names become metrics.
STEP_COLUMN, SCORE, ERROR, LENGTH, CLOCK = "step", "score", "score_standard_error", "response_tokens", "at_seconds"
# Columns that are read without being named.
KNOWN = (STEP_COLUMN, SCORE, ERROR, LENGTH, "loss", "reward", "entropy", "kl", "grad_norm")
TRIED = ("rollouts_per_prompt", "prompts_per_batch")  # what a sweep compares
PROBLEMS, VALIDATION_PROBLEMS = "problems.jsonl", "validation_problems.jsonl"
_LONGEST = "max_prompt_tokens"
_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_.]*)\}")


class MetricsOptions(Section):
    """Where its metrics are and what the columns mean."""

    format: Literal["jsonl", "csv", "tensorboard", "console"] = Field("jsonl", description="how they are written")
    file: str | None = Field(
        None, description="a file, several by * and ?, or TensorBoard's folder, relative to the trial's folder"
    )
    pattern: str | list[str] = Field([], description="of a console line: a regular expression with named groups")
    columns: dict[str, str] = Field({}, description="our name = theirs, such as score = 'eval/accuracy'")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | list[str]) -> str | list[str]:
        for expression in [pattern] if isinstance(pattern, str) else pattern:
            _expression(expression)
        return pattern

    @property
    def patterns(self) -> list[re.Pattern[str]]:
        """The expressions of console lines."""
        expressions = [self.pattern] if isinstance(self.pattern, str) else self.pattern
        return [re.compile(expression) for expression in expressions]

    @property
    def names(self) -> dict[str, str]:
        """Our names of the columns that are read, by the trainer's own."""
        names = {name: name for name in KNOWN if name not in self.columns}
        names |= {theirs: ours for ours, theirs in self.columns.items()}
        return names | {STEP_COLUMN: STEP_COLUMN, CLOCK: CLOCK} if self.format == "tensorboard" else names


class CheckpointOptions(Section):
    """Where its checkpoints are and what marks one as complete."""

    pattern: str = Field("checkpoint-{step}", description="file or folder, relative to the trial's folder")
    complete: str | None = Field(
        None, description="a file in it (or ../ beside it) that is written last; without it, it is renamed into place"
    )

    @field_validator("pattern")
    @classmethod
    def _has_step(cls, pattern: str) -> str:
        if pattern.count(STEP) != 1 or pattern.startswith("/") or ".." in pattern.split("/"):
            raise ValueError(
                f"checkpoints.pattern = '{pattern}' should lie in the trial's folder (no / before it, no ..) and name "
                f"{STEP} once, such as 'checkpoint-{STEP}'"
            )
        return pattern


class CommandOptions(Section):
    """A trainer of one's own."""

    here: str = Field(description="the folder that {here} stands for")
    command: str | list[str] = Field(description="what starts it, with placeholders; a shell is bash -c '…'")
    resume: str | list[str] | None = Field(
        None, description="arguments that are added where there is a checkpoint; '': it finds that by itself"
    )
    files: dict[str, str] = Field({}, description="files that are written first, by name, with placeholders")
    environment: dict[str, str] = Field({}, description="that of the trainer, with placeholders")
    metrics: MetricsOptions = Field(default_factory=MetricsOptions)
    checkpoints: CheckpointOptions = Field(default_factory=CheckpointOptions)
    stop_signal: Literal["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "none"] = Field(
        "SIGTERM", description="on which it saves and ends; none: it is killed, back to its last checkpoint"
    )
    began: str | None = Field(None, description="expression of the printed line with which start-up is over")
    gate: bool = Field(False, description="whether it waits at gate.json for its next segment")
    own_ray: bool = Field(
        False, description="run on the head, in a Ray of the trial's own from the environment of [trainer] python"
    )

    @field_validator("files")
    @classmethod
    def _leaves_ours_alone(cls, files: dict[str, str]) -> dict[str, str]:
        if ours := sorted(files.keys() & {IDENTITY, GATE, WAITING}):
            raise ValueError(f"[files] {', '.join(ours)}: rlplan writes that itself: take another name")
        return files

    @field_validator("began")
    @classmethod
    def _compiles(cls, began: str | None) -> str | None:
        return None if began is None else _expression(began)

    @field_validator("began")
    @classmethod
    def _one_clock(cls, began: str | None, others: ValidationInfo) -> str | None:
        metrics = others.data.get("metrics")
        if began is not None and metrics is not None and CLOCK in metrics.names.values():
            raise ValueError(
                f"began cannot be told by the clock of the metrics ({CLOCK}): leave it out, and have a row that holds "
                "nothing but the step where the trainer stands when its start-up is over"
            )
        return began

    @property
    def argv(self) -> list[str]:
        """The words of the command."""
        return _words(self.command)

    @property
    def resuming(self) -> list[str]:
        """The words that are added to it where there is a checkpoint."""
        return _words(self.resume or [])

    def texts(self) -> Iterator[str]:
        """List everything in which placeholders are filled in."""
        yield from (*self.argv, *self.resuming, *self.files.values(), *self.environment.values())
        yield self.metrics.file or ""

    def names(self, placeholder: str) -> bool:
        """Say whether it stands anywhere."""
        return any(f"{{{placeholder}}}" in text for text in self.texts())


def require_runnable(config: TrialConfig, options: CommandOptions) -> None:
    """Refuse a description that would not train what a sweep asks for."""
    if not options.argv:
        raise InputError("the trainer's command is empty")
    missing = [name for name in (*TRIED, "learning_rate") if not options.names(name)]
    if "prompts_per_batch" in missing and options.names("rollouts_per_step"):
        missing.remove("prompts_per_batch")
    if missing:
        raise InputError(
            f"the trainer's command names no {' and no '.join(f'{{{name}}}' for name in missing)}: a sweep compares "
            "runs that differ in them; put them into command, files or environment"
        )
    if not options.names("to_step") and not options.gate:
        raise InputError(
            "the trainer's command names no {to_step}: it must know after which update it is to save and end"
        )
    if options.resume is None and not options.names("resume_from"):
        raise InputError(
            "the trainer's file does not say how it goes on from a checkpoint: give resume = '--resume {resume_from}' "
            "or the like, and resume = '' where it finds its newest checkpoint by itself"
        )
    if config.machine.lora_rank is not None and not options.names("lora_rank"):
        raise InputError("[cost] lora_rank: the trainer's command names no {lora_rank}, and would train all weights")
    if options.metrics.format == "console" and not options.metrics.pattern:
        raise InputError("metrics.format = 'console' needs metrics.pattern: an expression with named groups")
    if options.own_ray and config.driven_by.python is None:
        raise InputError("own_ray = true needs python: the interpreter of the environment whose Ray is to be started")
    if config.growth is not None:
        raise InputError(
            f"the batch grows ({config.growth}), and a command is given one batch for the whole run: leave "
            "[axes] growths out, or take --trainer builtin"
        )


def _words(command: str | list[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else list(command)


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"'{text}' is no regular expression: {error}") from error
    return text


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

    def value(match: re.Match[str]) -> str:
        if match[1] == _LONGEST and _LONGEST not in values:
            raise InputError(f"'{match[0]}' in a trainer's file needs [task] prompt_length, in tokens")
        if match[1] not in values:
            shown = text if len(text) <= 60 else f"{text[:57]}…"
            raise InputError(
                f"'{match[0]}' in '{shown}' is no placeholder of a trainer's file: {suggest(match[1], values)}"
            )
        return values[match[1]]

    return _PLACEHOLDER.sub(value, text)


def _written(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value.absolute()) if isinstance(value, Path) else str(value)
