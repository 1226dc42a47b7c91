"""An allocation in the keys of a trainer, for somebody who starts it himself: what `adopt` reads, written."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.config.trainer import COMMAND
from planner.logs.trainers import Trainer, load_trainer, trainer_names

PLACEHOLDERS = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate")  # of its TOML file, docs/trainers.md


@dataclass(frozen=True, slots=True)
class Start:
    """What decides a run beside its recipe."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    learning_rate: float

    @property
    def batch_rollouts(self) -> int:
        """n·B."""
        return self.rollouts_per_prompt * self.prompts_per_batch


# Ours, and what of a start it is; one update a batch.
OURS = {
    "rollouts_per_prompt": "rollouts_per_prompt",
    "prompts_per_batch": "prompts_per_batch",
    "batch_rollouts": "batch_rollouts",
    "update_prompts": "prompts_per_batch",
    "update_rollouts": "batch_rollouts",
    "learning_rate": "learning_rate",
    "update_steps": "update_steps",
}


def starters() -> list[str]:
    """List the trainers whose keys are known, and `command`, whose placeholders are ours."""
    return [*trainer_names(), COMMAND]


def line_of(name: str, start: Start) -> list[str]:
    """Return an allocation as the command line of a trainer has it; UnknownNameError for another."""
    if name == COMMAND:
        return [f"{{{each}}}={_text(getattr(start, each))}" for each in PLACEHOLDERS]
    return arguments_of(load_trainer(name), start)


def keys_of(trainer: Trainer, start: Start) -> Iterator[tuple[str, int | float]]:
    """Yield its own keys with their values, of several names that a key has had the newest."""
    for ours, what in OURS.items():
        if names := trainer.keys.get(ours):
            yield names[0], getattr(start, what)


def arguments_of(trainer: Trainer, start: Start) -> list[str]:
    """Return them as its command line has them."""
    return [
        trainer.written.format(key=key, flag=key.replace("_", "-"), value=_text(value))
        for key, value in keys_of(trainer, start)
    ]


def _text(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
