"""An allocation in the keys of a trainer, for somebody who starts it himself: what `adopt` reads, written."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.config.trainer import COMMAND
from planner.logs.trainers import Trainer, load_trainer, trainer_names

LAUNCHED = ("nodes", "gpus_per_node")
PLACEHOLDERS = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate")  # of its TOML file, docs/trainers.md


@dataclass(frozen=True, slots=True)
class Start:
    """What decides a run beside its recipe; n and B are those of an update, of which a batch may make several."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    learning_rate: float
    updates_per_batch: int = 1
    recipe: str | None = None  # where that is to be said too
    further: Mapping[str, Any] = field(default_factory=dict)  # of the plan: model, lengths, GPUs, saves

    @property
    def update_rollouts(self) -> int:
        """n·B."""
        return self.rollouts_per_prompt * self.prompts_per_batch

    def values(self, *, counts_updates: bool) -> dict[str, Any]:
        """Return them by our names; the steps of most trainers are batches."""
        batches = math.ceil(self.update_steps / self.updates_per_batch)
        return {
            "rollouts_per_prompt": self.rollouts_per_prompt,
            "prompts_per_batch": self.updates_per_batch * self.prompts_per_batch,
            "batch_rollouts": self.updates_per_batch * self.update_rollouts,
            "update_prompts": self.prompts_per_batch,
            "update_rollouts": self.update_rollouts,
            "learning_rate": self.learning_rate,
            "update_steps": self.update_steps if counts_updates else batches,
        }


def starters() -> list[str]:
    """List the trainers whose keys are known, and `command`, whose placeholders are ours."""
    return [*trainer_names(), COMMAND]


def line_of(name: str, start: Start) -> list[str]:
    """Return an allocation as the command line of a trainer has it; UnknownNameError for another."""
    if name == COMMAND:
        return [f"{{{placeholder}}}={_text(getattr(start, placeholder))}" for placeholder in PLACEHOLDERS]
    return arguments_of(load_trainer(name), start)


def keys_of(trainer: Trainer, start: Start) -> Iterator[tuple[str, Any]]:
    """Yield its own keys with their values, of several names that a key has had the newest."""
    for ours, value in start.values(counts_updates=trainer.counts_updates).items():
        if names := trainer.keys.get(ours):
            yield names[0], value
    steps, prompts = start.values(counts_updates=False)["update_steps"], start.further.get("dataset_problems")
    if prompts and "update_steps" not in trainer.keys:  # it ends with its episodes, of whole batches
        episodes = math.ceil(steps * start.prompts_per_batch / prompts)
        yield trainer.keys["epochs"][0], episodes
        yield trainer.keys["dataset_problems"][0], math.ceil(steps / episodes) * start.prompts_per_batch
    for ours, value in start.further.items():
        key = next(iter(trainer.keys.get(ours, ())), "")
        # A launcher's flags are not the trainer's, and one that wants more than an interval is left as it is.
        if (
            key
            and ours != "dataset_problems"
            and not (ours in LAUNCHED and "num_processes" in trainer.keys.get("gpus", ()))
            and not (ours == "validation_every" and "validation_on" in trainer.keys)
        ):
            yield key, value
    yield from list(trainer.recipes.get(start.recipe or "", {}).items())[:1]


def arguments_of(trainer: Trainer, start: Start) -> list[str]:
    """Return them as its command line has them."""
    return [
        trainer.written.format(key=key, flag=key.replace("_", "-"), value=_text(value))
        for key, value in keys_of(trainer, start)
    ]


def launcher_of(name: str, start: Start) -> str | None:
    """Return what stands before a trainer's keys, None for one that starts its own processes."""
    launcher, nodes = None if name == COMMAND else load_trainer(name).launcher, start.further.get("nodes")
    return launcher and nodes and launcher.format(gpus=nodes * start.further["gpus_per_node"], nodes=nodes)


def note_of(name: str, start: Start) -> str | None:
    """Return what to mind about these keys besides."""
    note = None if name == COMMAND else load_trainer(name).by_hand
    return note and note.format(update_rollouts=start.update_rollouts)


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
