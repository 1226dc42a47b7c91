"""What is known of a run's configuration in our words: its settings, its GPUs, and which key said what."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from planner.logs.trainers import Trainer

_NEEDED = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "model", "gpus")


@dataclass(frozen=True)
class Settings:
    """What a run was configured to do, as far as it is known."""

    rollouts_per_prompt: int | None = None
    prompts_per_batch: int | None = None
    learning_rate: float | None = None
    model: str | None = None
    recipe: str | None = None
    gpus: int | None = None
    seed: int | None = None
    response_tokens: int | None = None  # the most of a response
    validation_samples: int | None = None
    notes: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Return what must be known and is not, by the names of its flags."""
        return [f"--{name.replace('_', '-')}" for name in _NEEDED if getattr(self, name) is None]


SETTINGS = tuple(each.name for each in fields(Settings) if each.name != "notes")


@dataclass(frozen=True, slots=True)
class GpuSplit:
    """How a run's GPUs were used, as far as its settings say; all took turns where they say nothing."""

    generator_gpus: int | None = None  # None: all of them
    engine_gpus: int | None = None  # of one inference engine
    asynchronous: bool = False
    updates: int = 1  # of a batch

    def of(self, gpus: int) -> tuple[int, int, bool]:
        """Return how many of a run's GPUs generated, how many trained, and whether they are the same."""
        if self.generator_gpus is None or not 0 < self.generator_gpus < gpus:
            return gpus, gpus, True
        return self.generator_gpus, gpus - self.generator_gpus, False


@dataclass(frozen=True)
class ScriptFacts:
    """What a configuration says of a run; None, or no entry, where it does not say."""

    trainer: str | None
    settings: Settings
    split: GpuSplit
    values: Mapping[str, Any] = field(default_factory=dict)  # our names beyond Settings: planner/logs/trainers
    keys: Mapping[str, str] = field(default_factory=dict)  # our names, and the trainer's key or flag that said it
    assumed: Mapping[str, Any] = field(default_factory=dict)  # our names, and the trainer's default that was taken
    unresolved: tuple[str, ...] = ()  # variables and files that could not be found
    names: Trainer | None = None  # whose keys and defaults these are: the trainer's, or those of a fork of it

    @property
    def maker(self) -> str | None:
        """The name of the trainer, or of a fork of it."""
        return self.names.name if self.names else None
