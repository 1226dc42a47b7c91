"""The document of a sweep: its picture, its final run, what its trainer does otherwise, and what its folder takes."""

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.config.trainer import STANDIN, TrainerChoice
from planner.recipes import Recipe
from rlplan.reading.finals import FinalStanding
from rlplan.reading.sweep_picture import Picture
from rlplan.wording.answers import Key, View
from runner.ports.trial import Machine
from runner.trainers.capabilities import Judging
from runner.trainers.catalogue import named_driver

LONGEST = 3.0  # seconds: storage that does not answer must not hold up who asks how a sweep stands
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_CHECKPOINT = ("checkpoint", "global_step", "step_")  # how the names of trainers' checkpoints begin


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes."""

    folder: str
    checkpoints: int  # of them, in files or folders that are named as checkpoints are
    everything: int
    free: int

    def describe(self) -> str:
        """Return a sentence."""
        others = self.everything - self.checkpoints
        rest = f", {_size(others)} other files" if others else ""
        return f"{_size(self.checkpoints)} checkpoints{rest} in {self.folder}; {_size(self.free)} are free there"


def taken(picture: Picture) -> Taken | None:
    """Return what lies in a sweep's folder; None where it cannot be looked into from here, or takes too long."""
    folder = str(picture.config.get("folder", ""))
    takens: list[Taken | None] = []
    thread = threading.Thread(target=lambda: takens.append(_looked(Path(folder))), daemon=True)
    if folder:
        thread.start()
        thread.join(LONGEST)
    return takens[0] if takens else None


def _looked(folder: Path) -> Taken | None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None
    checkpoints = everything = 0
    for above, _, names in os.walk(folder):
        below = Path(above).relative_to(folder).parts
        within = any(part.startswith(_CHECKPOINT) for part in below)
        for name in names:
            try:
                size = os.lstat(os.path.join(above, name)).st_size
            except OSError:  # it was removed meanwhile
                continue
            everything += size
            checkpoints += size if within or name.startswith(_CHECKPOINT) else 0
    return Taken(str(folder), checkpoints, everything, free)


def _size(amount: int) -> str:
    unit, name = next(((unit, name) for unit, name in _UNITS if amount >= unit), (1, "B"))
    return f"{amount / unit:,.3g} {name}"


def approximated(config: Mapping[str, Any]) -> list[str]:
    """Return a line for each recipe of a sweep's configuration that is done nearly; nothing where all are exact."""
    training = config.get("training", {})
    given = training.get("trainer")
    trainer = TrainerChoice.model_validate(given) if given else None
    if trainer is None or not trainer.approximate or trainer.name == STANDIN:
        return []
    judge = named_driver(trainer.name)
    machine = Machine.model_validate(training.get("machine", {}))
    found = []
    for tables in training.get("recipes", {}).values() or (training["recipe"],):
        recipe = Recipe.model_validate(tables)
        differences = judge.differences(recipe, machine) if isinstance(judge, Judging) else []
        if differences:
            done = "; ".join(difference.done for difference in differences)
            found.append(f"{trainer.name} does recipe '{recipe.name}' approximately: {done}")
    return found


@dataclass(frozen=True)
class StatusData(View[Picture]):
    """How a sweep stands, with its final run and what its folder takes."""

    WHOLE = Picture
    run: FinalStanding | None = field(repr=False)

    approximated = Key[Sequence[str]](lambda status: approximated(status.of.config))
    storage = Key[Taken | None](lambda status: taken(status.of))
    final = Key[FinalStanding | None]("run")
