"""Starts slime's train.py, or train_async.py where run.json names it, in a Ray of the trial's own."""

import json
import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from runner.trainers.trainer_process import SAVE_NOW  # of the trial's `parts`, which PYTHONPATH names

FOLDER = Path(__file__).absolute().parent


def on_request(is_due: Any) -> Any:
    """Return slime's rule for saves and validations, by which a save is due too when rlplan asks for it."""

    def due(batch: int, interval: int | None, per_epoch: int | None = None, batches: int | None = None) -> bool:
        saves = batches is not None  # how many there are is said of saves alone
        return (saves and (FOLDER / SAVE_NOW).exists()) or bool(is_due(batch, interval, per_epoch, batches))

    return due


def validating_first(update_weights: Any, validate: Any) -> Any:
    """Return what hands on the weights, and validates after the first time: train_async.py does not by itself."""
    pending = [validate]

    def update() -> Any:
        result = update_weights()
        while pending:
            pending.pop()()
        return result

    return update


def main() -> None:
    """Start it from the checkpoint that is whole, and say when its models are loaded."""
    run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    tracker = FOLDER / run["tracker"]
    if run["from_step"]:
        tracker.write_text(str(run["from_step"] - 1), encoding="utf-8")  # what lies beyond it may be torn
    else:
        tracker.unlink(missing_ok=True)
    sys.path[:0] = [str(FOLDER), run["checkout"], run["megatron"]]
    placement_group: Any = import_module("slime.ray.placement_group")
    say = import_module("rlplan_slime").say

    create = placement_group.create_training_models

    def created(args: Any, groups: Any, rollouts: Any) -> Any:
        models = create(args, groups, rollouts)
        say(run["from_step"])
        if "program" in run and not run["from_step"]:
            get: Any = import_module("ray").get
            first = validating_first(models[0].update_weights, lambda: get(rollouts.eval.remote(0)))
            models[0].update_weights = first
        return models

    placement_group.create_training_models = created
    misc: Any = import_module("slime.utils.misc")
    misc.should_run_periodic_action = on_request(misc.should_run_periodic_action)
    program = str(Path(run["checkout"]) / run.get("program", "train.py"))
    sys.argv = [program, *run["words"]]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
