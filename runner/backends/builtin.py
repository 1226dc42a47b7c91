"""The backend that trains here, with the code of this package."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

from budgets.errors import CheckpointError, InputError, TrainingError
from runner.ports.backend import Point, Saved, Segment
from runner.ports.trial import TrialConfig
from runner.training import checkpoints
from runner.training.components import TrialParts, build, warm_up
from runner.training.trial import Stopwatch
from runner.training.updater import is_out_of_memory


class BuiltinBackend:
    """GRPO in this process, one trial at a time."""

    saves_itself = False

    def __init__(self) -> None:
        self._parts: TrialParts | None = None
        self._config: TrialConfig | None = None
        self._folder = Path()
        self.notes: tuple[str, ...] = ()  # what `restore` passed over

    def start(self, config: TrialConfig, folder: Path) -> None:
        """Prepare a fresh trial; a folder that holds a trial already is refused."""
        checkpoints.require_free(folder)
        self._open(config, folder)

    def advance(self, segment: Segment) -> Iterator[Point]:
        """Train up to the segment's last step, yielding a point for step 0 if it is new, and after every update."""
        trainer = self._opened().trainer
        try:
            for point in trainer.points(segment.to_step):
                yield point
                if segment.stopping():
                    return
        except (RuntimeError, MemoryError) as error:
            if not (isinstance(error, MemoryError) or is_out_of_memory(error)):
                raise
            raise TrainingError(
                "out-of-memory",
                f"out of memory after step {trainer.step} ({error}); use fewer rollouts per step, shorter responses, "
                "or more or larger GPUs",
            ) from error

    def checkpoint(self) -> Saved:
        """Save the trial atomically; the two newest checkpoints are kept."""
        trainer = self._opened().trainer
        config = self._config
        if trainer.step < 0 or config is None:
            raise CheckpointError("a trial that has not scored its base model has nothing to save: advance it first")
        state = {"config": config.model_dump(mode="json"), "trainer": trainer.state()}
        return Saved(trainer.step, checkpoints.save(self._folder, trainer.step, state))

    def restore(self, config: TrialConfig, folder: Path) -> int:
        """Go on from the newest sound checkpoint; `notes` says which damaged ones were passed over."""
        restored = checkpoints.resumed(folder, config)
        self.notes = restored.notes
        self._open(config, folder)
        trainer = self._opened().trainer
        trainer.restore(restored.state["trainer"])
        return trainer.step

    def close(self) -> None:
        """Free the model, the engine and the reward's process."""
        if self._parts is not None:
            self._parts.close()
            self._parts = None
        torch = sys.modules.get("torch")  # which is loaded where a trial was open
        if torch is not None and torch.cuda.is_initialized():  # vLLM of the next trial needs its share to be free
            gc.collect()  # a model in a cycle would hold its memory until later
            torch.cuda.empty_cache()

    def _open(self, config: TrialConfig, folder: Path) -> None:
        self.close()
        warm_up()
        parts = build(config, Stopwatch())
        self._config, self._folder, self._parts = config, folder, parts

    def _opened(self) -> TrialParts:
        if self._parts is None:
            raise InputError("no trial is open: start or restore one first")
        return self._parts
