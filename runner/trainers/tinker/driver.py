"""A Tinker service, Thinking Machines' or another that speaks its API; tests/tinker trains on SkyRL's tx."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from pydantic import Field

import runner
from budgets.errors import InputError, TrainingError, UnknownNameError
from planner.config.cost import TokenPrices
from planner.config.trainer import API_KEY
from planner.recipes.schema import Recipe
from planner.tables import Count, Positive, Section
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.base import Driver, Keys, Layout
from runner.trainers.capabilities import A_GPU, Deviation, Difference, Loss
from runner.trainers.driver import Reading
from runner.trainers.job import Job
from runner.trainers.options import options_in
from runner.trainers.tinker.service import models_of

SERVICE = "https://tinker.thinkingmachines.dev/services/tinker-prod"
LORA_ALPHA = 32  # of every service
_SAID = re.compile(r"\brlplan ([a-z-]+): (.*)$", re.MULTILINE)  # by process.py, of its end


class TinkerOptions(Section):
    """[trainer.options] of a Tinker service."""

    base_url: str = Field(SERVICE, description="where the service answers")
    api_key_env: str = Field(API_KEY, description="variable that holds its key, which is never stored")
    model: str | None = Field(None, description="the model's name there; else as [task] or --model names it")
    lora_rank: Count | None = Field(None, description="rank of the adapters; else that of [cost], else 32")
    per_million: TokenPrices | None = Field(None, description="what its tokens cost; else as [cost] has it")
    call_seconds: Positive = Field(600.0, description="that an answer may take; then the trial is tried again")


class TinkerDriver(Driver[Job]):
    """rlplan's own loop on somebody else's GPUs; each trial is an adapter of the same base model."""

    name, title = "tinker", "a Tinker service"
    form = "json"
    gated, trains_on = True, False
    job_type, Options = Job, TinkerOptions
    argv = ("-m", "runner.trainers.tinker.process", "run.json")
    equal_shares = False
    layout = Layout(pattern="checkpoint-{step}.pt")
    loss = Loss(
        clips=("ppo", "none", "cispo"), aggregations=("sample", "prompt", "token", "constant", "sum"), by_response=()
    )
    refuses: ClassVar[Mapping[str, str]] = {"machine.compile": "leave it out"}

    def refusals(self, job: Job) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        task = job.config.task
        if job.temperature != 1 or job.top_p < 1 or job.validation_top_p < 1:
            yield (
                f"[task] temperature = {task.temperature:g}, top_p = {task.top_p:g} with --trainer tinker: a service "
                "scores what it trains on at 1. Set both to 1, and validation_top_p too"
            )
        if job.machine.lora_alpha != LORA_ALPHA:
            yield f"[cost] lora_alpha = {job.machine.lora_alpha} with --trainer tinker: a service has {LORA_ALPHA}"
        if job.embedded and job.options.model is None:
            yield f"task '{task.name}' with --trainer tinker: name its server's model, [trainer.options] model"

    def differences(self, recipe: Recipe, machine: Machine = A_GPU) -> Sequence[Difference]:
        """Return every key of a recipe that it does otherwise; prompts are retired by rlplan's own loop."""
        found = super().differences(recipe, machine)
        return [difference for difference in found if difference.key != "filters.retire_at"]

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what its API has no words for, by the recipe's dotted keys."""
        objective = recipe.objective
        return {
            "objective.kl": Deviation("which its losses have not", 0.0, near=False),
            "objective.entropy": Deviation("which its losses have not", 0.0),
            "objective.truncated_importance": Deviation(
                "where a ratio against the sampler corrects for it already", None, objective.against == "sampler"
            ),
            "precision.fp32_head": Deviation("but its numbers are its own", False),
        }

    def settings(self, job: Job) -> Keys:
        """Return no keys: all of them are rlplan's."""
        return {}

    def keys(self, job: Job) -> Keys:
        """Return no keys: the program is rlplan's."""
        return {}

    def plan(self, job: Job, settings: Keys) -> Any:
        """Plan nothing: the memory is the service's."""
        return SimpleNamespace()

    def files(self, job: Job) -> dict[str, str]:
        """Return what the program is told."""
        options, config = job.options, job.config
        run = {
            **options.model_dump(),
            "base_url": options.base_url.rstrip("/"),
            "model": options.model or config.task.model,
            "lora_rank": options.lora_rank or job.machine.lora_rank or 32,
            "seed": job.seed,
            "metrics": job.attempt.metrics.name,
            "from_step": job.attempt.from_step,
            "save_seconds": config.driven_by.saves_every,
            "config": config.model_dump(mode="json"),
        }
        return {"run.json": json.dumps(run, indent=1)}

    def environment(self, job: Job) -> dict[str, str]:
        """Return the variables of its process, which runs the code of this package."""
        return {"PYTHONPATH": str(Path(runner.__file__).parents[1])}

    def as_done(self, config: TrialConfig) -> TrialConfig:
        """Return the trial with the recipe as it is done, in this interpreter where none is named."""
        config = super().as_done(config)
        choice = config.driven_by
        if choice.python is None:
            choice = choice.model_copy(update={"python": sys.executable})
        return config.model_copy(update={"trainer": choice})

    def reach(self, config: TrialConfig) -> None:
        """Ask the service: InputError where nobody answers, or where it refuses the key or has not the model."""
        options: Any = options_in(config, self.Options)
        wanted, key = options.model or config.task.model, os.environ.get(options.api_key_env)
        try:
            models = models_of(options.base_url.rstrip("/"), key, options.api_key_env)
        except TrainingError as error:
            raise InputError(str(error)) from error
        if models is not None and wanted not in models:
            raise UnknownNameError(f"model of {options.base_url}", str(wanted), models)

    def read(self, line: str, config: TrialConfig) -> Sequence[Reading]:
        """Return what a line of the program says of a step."""
        with suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            metrics = dict(row.get("metrics", {}))
            return [
                Reading(
                    int(row["step"]),
                    row.get("score"),
                    row.get("score_standard_error"),
                    metrics.pop("response_tokens", None),
                    float(row["at_seconds"]),
                    metrics,
                    row.get("seconds", {}),
                    whole="metrics" in row,
                )
            ]
        return []

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return what the program has said of its end."""
        said = _SAID.findall(tail)
        return (said[-1][0], said[-1][1]) if said else None


DRIVER = TinkerDriver()
