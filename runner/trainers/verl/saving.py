"""Has verl save when rlplan asks for it; copied into a trial's folder, where verl finds it by its callback's name.

verl calls a callback after its saves alone, so that the hook at a step's end, which follows them, is what asks.
"""

from pathlib import Path
from typing import Any

from verl.trainer.ppo.checkpoint_callback import CheckpointCallback
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


PPOTrainerSync.on_step_end = saving(PPOTrainerSync.on_step_end)
