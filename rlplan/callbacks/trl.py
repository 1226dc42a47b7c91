"""A callback of TRL's trainers: `GRPOTrainer(…, callbacks=[WatchCallback(gpus=8)])`."""

from typing import Any

from transformers import TrainerCallback

from rlplan.callbacks.run_watch import RunWatch


class WatchCallback(TrainerCallback):
    """Says what `rlplan watch` would of the run that it is in; with `stop` a warning ends it."""

    def __init__(self, gpus: int | None = None, *, stop: bool = False) -> None:
        self._watch, self._stop = RunWatch("trl", gpus=gpus), stop

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **further: Any) -> None:
        """Take up what the trainer logs."""
        if state.is_world_process_zero and logs:
            self._watch.end = state.max_steps or None
            if self._watch.see(state.global_step, logs) and self._stop:
                control.should_training_stop = True
