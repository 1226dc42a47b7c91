# mypy: disable-error-code="misc, no-untyped-call"
"""Trains a trial with a trainable of Ray Tune's, a class or a function, between rlplan's gate and its checkpoints.

`python -m runner.trainers.command.tune_trainable HERE MODULE:NAME [CHECKPOINT]` in the trial's folder, where
trainable.json is the trainable's configuration. No Ray is started: the sweep's is there for trials, and this is one.
"""

import json
import logging
import math
import os
import shutil
import sys
import time
from importlib import import_module
from numbers import Number
from pathlib import Path
from typing import Any

from ray.train._internal.checkpoint_manager import _TrainingResult  # what Tune itself hands a trainable
from ray.train._internal.storage import StorageContext
from ray.tune import Checkpoint, Trainable
from ray.tune.result import DONE, RESULT_DUPLICATE, TRAINING_ITERATION
from ray.tune.trainable import FunctionTrainable, wrap_function
from ray.tune.utils import flatten_dict

GATE, WAITING, METRICS = Path("gate.json"), Path("waiting.json"), Path("metrics.jsonl")
SECONDS_BETWEEN_LOOKS = 0.05


class TrialStorage(StorageContext):
    """Where a function's reports and checkpoints are put, without a Ray whose session folder would hold them."""

    def _get_session_path(self) -> str:
        return str(Path(self.storage_fs_path) / "session")


class GatedTrainable:
    """A trainable with the checkpoints of one trial."""

    def __init__(self, trainable: Trainable) -> None:
        """Take one that is set up."""
        self._trainable = trainable
        self._reported: tuple[int, Path] | None = None  # a function's newest checkpoint, and its iteration

    @property
    def iteration(self) -> int:
        """How many results there are."""
        return int(self._trainable.training_iteration)

    def restore(self, folder: Path) -> None:
        """Go on from a checkpoint of this trial."""
        metrics = {TRAINING_ITERATION: int(folder.name.rpartition("-")[2])}
        self._trainable.restore(_TrainingResult(checkpoint=Checkpoint.from_directory(str(folder)), metrics=metrics))

    def train(self) -> bool:
        """Write the numbers of the next result; return whether another may follow."""
        result = self._trainable.train()
        if RESULT_DUPLICATE in result:  # a function has returned
            return False
        if isinstance(self._trainable, FunctionTrainable):
            self._keep_reported()
        numbers = {
            name: value
            for name, value in flatten_dict(result, delimiter="/").items()
            if isinstance(value, Number) and not isinstance(value, bool) and math.isfinite(float(value))  # type: ignore[arg-type]
        }
        with METRICS.open("a", encoding="utf-8") as metrics:
            metrics.write(json.dumps({**numbers, "step": self.iteration}, default=float) + "\n")
        return not result.get(DONE)

    def save(self) -> None:
        """Save under the iteration that can be gone on from: a function's is that of its last checkpoint."""
        step, source = (self.iteration, None) if self._reported is None else self._reported
        if isinstance(self._trainable, FunctionTrainable) and source is None:
            return  # it has reported none, and begins anew after a loss
        folder, unfinished = Path(f"checkpoint-{step}"), Path(f"unfinished-{step}")
        if folder.exists():
            return
        shutil.rmtree(unfinished, ignore_errors=True)
        if source is None:
            self._trainable.save(str(unfinished))
        else:
            shutil.copytree(source, unfinished)
        unfinished.rename(folder)

    def _keep_reported(self) -> None:
        """Note the checkpoint that a function has just reported, and remove the one before."""
        checkpoint = self._trainable._last_training_result.checkpoint
        if checkpoint is None or (self._reported and str(self._reported[1]) == checkpoint.path):
            return
        if self._reported is not None:
            shutil.rmtree(self._reported[1], ignore_errors=True)
        self._reported = (self.iteration, Path(checkpoint.path))


def loaded(here: str, name: str) -> Trainable:
    """Return the trainable of a name, set up with the trial's configuration."""
    sys.path.insert(0, here)
    module, _, attribute = name.partition(":")
    trainable: Any = getattr(import_module(module), attribute)
    config = json.loads(Path("trainable.json").read_text(encoding="utf-8"))
    if isinstance(trainable, type) and issubclass(trainable, Trainable):
        return trainable(config)
    shutil.rmtree("tune", ignore_errors=True)  # of an attempt that is over
    storage = TrialStorage(str(Path.cwd() / "tune"), "function", trial_dir_name=f"attempt-{os.getpid()}")
    for folder in (storage.trial_fs_path, storage.trial_working_directory):
        Path(folder).mkdir(parents=True, exist_ok=True)
    return wrap_function(trainable)(config, storage=storage)


def gate() -> int:
    """Return the iteration up to which may be trained."""
    return int(json.loads(GATE.read_text(encoding="utf-8"))["to_step"])


def may_go_on(trainable: GatedTrainable) -> bool:
    """Save and wait where the gate says so; whether there is something to go on for."""
    parent = os.getppid()
    if trainable.iteration < gate():
        return True
    trainable.save()
    while gate() <= trainable.iteration:
        if not WAITING.exists():
            WAITING.write_text(json.dumps({"step": trainable.iteration}), encoding="utf-8")
        if os.getppid() != parent:
            return False
        time.sleep(SECONDS_BETWEEN_LOOKS)
    WAITING.unlink(missing_ok=True)  # which may have been written again as the gate opened
    return True


def main(here: str, name: str, checkpoint: str | None = None) -> None:
    """Train until nobody waits for more, or the trainable has ended."""
    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # the trial's folder is this one
    logging.getLogger("ray.train").setLevel(logging.WARNING)  # else a line for every checkpoint
    trainable = GatedTrainable(loaded(here, name))
    if checkpoint is not None:
        trainable.restore(Path(checkpoint))
    while may_go_on(trainable):
        if not trainable.train():
            trainable.save()
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
