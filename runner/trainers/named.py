"""What the drivers of named trainers have in common: a recipe as it is done, lines, checkpoints, words of an end."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from planner.logs.trainers import Trainer
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.ability import A_GPU, Difference, done_as
from runner.trainers.driver import Attempt, Checkpoint, Source
from runner.trainers.driving import complete, warmup_steps
from runner.trainers.following import LineSource
from runner.trainers.told import readings

_SAID = re.compile(r"\brlplan (input|checkpoint): (.*)$")  # by a program of ours in the trainer's interpreter
_MEANT = {"input": " refused its configuration", "checkpoint": " could not go on"}


class NamedDriver:
    """A driver that is known by what its trainer's files and words are called; see runner/trainers/driver.py."""

    name: str
    title: str  # in messages
    otherwise: Callable[[Recipe, Machine], Iterator[Difference]]  # what of a recipe it would do otherwise
    log: Trainer  # of what its own programs tell
    pattern: str  # of its checkpoints
    tracker: str | None = None
    holds: Sequence[str] = ()  # files of a checkpoint
    mark: str | None = None  # the file of a checkpoint that a program of ours writes last
    counts_batches = False  # whether each of its steps is a batch of rollouts, which may be several updates
    words: Sequence[tuple[re.Pattern[str], str]] = ()  # of its failures, with their kinds
    stop_signal: int | None = None
    gated = False
    saves_on_request = False  # what follows its last checkpoint is lost

    def differences(self, recipe: Recipe, machine: Machine = A_GPU) -> Sequence[Difference]:
        """Return what it does otherwise."""
        return list(self.otherwise(recipe, machine))

    def as_done(self, config: TrialConfig) -> TrialConfig:
        """Return the trial with the recipe as the trainer does it; InputError where that is not what is wanted."""
        assert config.trainer is not None
        judge = partial(self.differences, machine=config.machine)
        recipe = done_as(self.title, config.recipe, judge, approximate=config.trainer.approximate)
        updates, made = config.recipe.schedule.updates_per_batch, recipe.schedule.updates_per_batch
        warmup = config.warmup_steps if made == updates else -(-warmup_steps(config) * made // updates)
        return config.model_copy(update={"recipe": recipe, "warmup_steps": warmup})

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return the file that a program of ours writes in its interpreter."""
        return [LineSource(attempt.metrics, lambda line: readings(line, self.log, self._updates(config)))]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that hold everything, up to the one that its tracker names where it has one."""
        found = complete(folder, self.pattern, self.tracker, (*self.holds, *filter(None, [self.mark])))
        return [replace(each, step=each.step * self._updates(config)) for each in found]

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return what its files are called, for one who writes them instead."""
        return {
            "metrics": str(attempt.metrics),
            "checkpoint": self.pattern,
            "tracker": self.tracker,
            "holds": list(self.holds),
            "mark": self.mark,
            "updates": self._updates(config),
        }

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return what a program of ours, or it in its own words, has said of its end; the last that fits counts."""
        for line in reversed(tail.splitlines()):
            if said := _SAID.search(line):
                return said[1], f"{self.title}{_MEANT[said[1]]}: {said[2]}"
            for words, kind in self.words:
                if words.search(line):
                    return kind, f"{self.title}{_MEANT.get(kind, '')}: {line.strip()[:300]}"
        return None

    def _updates(self, config: TrialConfig) -> int:
        return config.recipe.schedule.updates_per_batch if self.counts_batches else 1
