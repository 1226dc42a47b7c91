"""Has verl save when rlplan asks for it, and train in turn what it made ahead; verl finds it by its callback's name.

It is copied into a trial's folder. verl calls a callback after its saves alone, so that the hook at a step's end,
which follows them, is what asks.
"""

from pathlib import Path
from typing import Any

from verl.trainer.ppo.checkpoint_callback import CheckpointCallback
from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

WANTED = Path(__file__).with_name("save-now.json")


class SaveNow(CheckpointCallback):  # type: ignore[misc]
    """Notes which step was saved last."""

    saved_step = -1

    def on_save(self, trainer: Any, global_step: int, checkpoint_dir: str, **_: Any) -> None:
        """Note it."""
        self.saved_step = global_step


def saving(on_step_end: Any) -> Any:
    """Return the hook with a save before it, where one is asked for and the step was not saved anyway."""

    def hook(trainer: Any) -> None:
        if WANTED.exists() and trainer.checkpoint_callback.saved_step != trainer.global_steps:
            trainer._save_checkpoint()
        on_step_end(trainer)

    return hook


def in_turn(has_enough: Any) -> Any:
    """Return verl's look at what is ready, by which a batch waits until no older prompt is under way.

    verl trains what is ready first, so that slow responses get old, and drops them where they get older than it allows.
    """

    def ready(buffer: Any, step: int, partition: str, size: int, sampleable: set[str]) -> bool:
        if not has_enough(buffer, step, partition, size, sampleable):
            return False
        asked_at = buffer.prompt_global_steps[partition]
        youngest = sorted(asked_at[prompt] for prompt in sampleable)[size - 1]
        under_way = buffer.pending_keys[partition] | buffer.running_keys[partition]
        return all(asked_at[prompt] >= youngest for prompt in under_way)

    return ready


for trainer_class in (PPOTrainerSync, PPOTrainerSeparateAsync):
    trainer_class.on_step_end = saving(trainer_class.on_step_end)
ReplayBufferAsync._has_enough_samples = in_turn(ReplayBufferAsync._has_enough_samples)
