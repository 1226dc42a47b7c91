"""One attempt of a trial as its driver makes keys of it: the recipe, the steps, the task and the machine's share.

Steps are the trainer's own: batches where it counts those.
"""

import os
from functools import cached_property
from typing import Any, Protocol

from budgets.memory_plan import MemoryPlan
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.tasks.tokenizers import ChatTokenizer, is_hub_name
from runner.trainers.capabilities import clip_bounds
from runner.trainers.driver import Attempt
from runner.trainers.gpu_split import Share, SplitTraits, share_of, training_gpus
from runner.training.components import prompt_pass_rates

# Prompts that there are for each prompt of an update: some are left out where groups without signal are replaced.
_SPARE = {"keep": 1, "drop": 1, "refill": 4}


class JobTraits(SplitTraits, Protocol):
    """What a job depends on of its driver."""

    counts_batches: bool
    clip_lowest: float
    clip_highest: float


class Job:
    """What a trainer is to do in one attempt; `plan` and `keys` are set by its driver."""

    plan: MemoryPlan
    keys: dict[str, Any]
    words: list[str]

    def __init__(self, driver: JobTraits, config: TrialConfig, task: Task, attempt: Attempt, options: Any) -> None:
        self.config, self.task, self.attempt, self.options = config, task, attempt, options
        self.machine, self.validation = config.machine, config.validation
        self.asynchronous = driver.is_apart(config.recipe)
        self.train_gpus = training_gpus(driver, config, options)
        self._take_recipe(driver)
        self._take_steps(driver)
        self._take_task()
        self.take_own()

    def take_own(self) -> None:
        """Take what a trainer alone needs; InputError where it is not there."""

    def _take_recipe(self, driver: JobTraits) -> None:
        """Take the recipe's sections and the allocation."""
        config, recipe = self.config, self.config.recipe
        self.advantage, self.objective, self.rewards = recipe.advantage, recipe.objective, recipe.rewards
        self.filters, self.schedule = recipe.filters, recipe.schedule
        self.optimizer, self.precision = recipe.optimizer, recipe.precision
        self.refills, self.updates = recipe.filters.zero_variance == "refill", recipe.schedule.updates_per_batch
        self.clip_low, self.clip_high = clip_bounds(recipe.objective, driver.clip_lowest, driver.clip_highest)
        self.rollouts_per_prompt, self.rollouts_per_step = config.rollouts_per_prompt, config.rollouts_per_step
        self.prompts_per_batch, self.learning_rate = config.prompts_per_batch, config.learning_rate
        self.warmup_steps, self.seed = config.warmup, config.seed
        self.warmup_batches = -(-config.warmup // self.updates)  # where a batch has one rate for all of its updates
        self.gpus_per_node = config.machine.gpus // config.machine.nodes

    def _take_steps(self, driver: JobTraits) -> None:
        """Take from where to where the attempt goes, and what comes how often."""
        config, attempt = self.config, self.attempt
        updates = self.updates if driver.counts_batches else 1
        folder = attempt.folder  # a rehearsal is made where it stands
        self.folder = str(folder.absolute() if folder.parts else folder)
        self.trial, self.sweep = run_names(attempt)
        self.validate_every = max(1, validation_steps(config) // updates)
        self.save_every = max(1, save_steps(config, attempt, getattr(self.options, "save_steps", None)) // updates)
        self.from_step, self.to_step = attempt.from_step // updates, -(-attempt.to_step // updates)
        self.resumes = attempt.checkpoint is not None
        self.checkpoint = None if attempt.checkpoint is None else str(attempt.checkpoint.absolute())

    def _take_task(self) -> None:
        """Take the model, its tokenizer, the problems, their lengths and how they are sampled."""
        choice, task = self.config.task, self.task
        self.embedded, self.has_chat, self.chat_template = choice.name in EMBEDDED, has_chat(task), task.chat_template
        is_name = is_hub_name(task.model_path) and task.chat_template is None
        self.model = task.model_path
        # Which trainer_process.py makes, with the model's tokenizer.
        self.model_folder = self.model if is_name else os.path.join(self.folder, "model")
        self.tokenizer = os.path.join(self.folder, "tokenizer") if self.embedded else self.model
        self.validation_problems = min(self.validation.problems, len(task.validation))
        self.max_prompt_tokens, self.max_response_tokens = task.max_prompt_tokens, task.max_response_tokens
        self.max_tokens = task.max_prompt_tokens + task.max_response_tokens
        self.overlong = round(self.rewards.overlong_share * task.max_response_tokens)
        self.temperature, self.top_p = choice.temperature, choice.top_p
        self.validation_temperature, self.validation_top_p = choice.validation_sampling

    @property
    def generators(self) -> int:
        """GPUs that generate and do not train."""
        return self.machine.gpus - self.train_gpus

    @cached_property
    def share(self) -> Share:
        """Who has which GPUs."""
        return share_of(self.config, self.train_gpus, self.plan.engine_gpus)

    @cached_property
    def passes(self) -> int:
        """Rollouts of one forward and backward pass."""
        chosen = self.options.rollouts_per_pass
        return rollouts_per_pass(self.config, self.task, self.plan.tokens, chosen, self.generators)

    @cached_property
    def horizon(self) -> dict[str, Any]:
        """How many batches and updates the data last that are as long as any trial may become, and their `order`.

        Where a trainer's own order, schedule or end depends on how long they are, neither a pause nor an epoch may
        reorder the problems. The file of trainer_process.py has each once; its OrderedData is as long as the horizon.
        """
        batches = -(-self.options.horizon_steps // self.updates)
        horizon_updates = batches * self.updates * _SPARE[self.filters.zero_variance]
        order = {
            "count": len(self.task.train),
            "seed": self.seed,
            "rows": horizon_updates * self.prompts_per_batch,
            "pass_rates": prompt_pass_rates(self.config, self.task),
        }
        return {"batches": batches, "horizon_updates": horizon_updates, "order": order}

    def run(self, tracker: str | None) -> dict[str, Any]:
        """Return what every program of ours in a trainer's interpreter reads in run.json."""
        return {
            "metrics": self.attempt.metrics.name,
            "from_step": self.from_step,
            "to_step": self.to_step,
            "updates": self.updates,
            "rollouts_per_prompt": self.rollouts_per_prompt,
            "save_seconds": self.config.driven_by.saves_every,
            "model": self.model,
            "end_id": self.task.tokenizer.end_id,
            **({"save_every": self.save_every} if self.attempt.trains_on else {}),
            "tracker": tracker,
            "samples": self.validation.samples,
            "advantage": self.advantage.model_dump(),
            "mask_truncated": self.rewards.mask_truncated,
            "skip_special_tokens": not self.embedded,  # in ours they are characters that no answer has
            "order": self.horizon["order"] if hasattr(self.options, "horizon_steps") else None,
        }


def rollouts_per_pass(config: TrialConfig, task: Task, tokens: int, chosen: int | None, apart: int = 0) -> int:
    """Return as many as are wanted, or else as so many tokens allow; all passes of a GPU are of that size.

    `apart` GPUs do not train.
    """
    of_a_gpu = config.rollouts_per_step // (config.machine.gpus - apart)
    most = chosen or max(1, tokens // (task.max_prompt_tokens + task.max_response_tokens))
    return max(size for size in range(1, min(of_a_gpu, most) + 1) if of_a_gpu % size == 0)


def validation_steps(config: TrialConfig) -> int:
    """Return the updates between validations."""
    return max(1, config.validation.every_rollouts // config.rollouts_per_step)


def save_steps(config: TrialConfig, attempt: Attempt, chosen: int | None = None) -> int:
    """Return the updates between saves: those asked for, else as many as fit, on a CPU at most between validations.

    A checkpoint of a model on GPUs may take longer to write than the steps between two validations. Where the trainer
    goes on beyond its segment's end, each validation comes with a save, if that does not double the saves.
    """
    every = validation_steps(config)
    if attempt.trains_on:
        most = min(every, chosen or attempt.save_steps or every)
        return next((steps for steps in range(most, most // 2, -1) if every % steps == 0), most)
    if chosen is not None or attempt.save_steps is None:
        return chosen or every
    return attempt.save_steps if config.machine.device == "cuda" else min(every, attempt.save_steps)


def has_chat(task: Task) -> bool:
    """Whether the model has a chat template, so that a prompt that is a text becomes a turn of the user."""
    return isinstance(task.tokenizer, ChatTokenizer) and task.tokenizer.has_template


def run_names(attempt: Attempt) -> tuple[str, str]:
    """Return what a trial's run and its group are called in W&B and the like: the trial, and its sweep."""
    trial = attempt.folder.absolute().parent
    return trial.name, trial.parent.name
