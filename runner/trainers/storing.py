"""The checkpoints in a trial's folder, whoever trained it: which there are, how many stay, and what room they take."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from budgets.errors import CheckpointError
from planner.disk import room
from runner.ports.trial import TrialConfig
from runner.trainers.catalogue import driver_of
from runner.trainers.driver import Checkpoint
from runner.training import checkpoints
from runner.training.trial import METRICS

FOLDER = "trainer"  # in a trial's folder: everything of its trainer
IDENTITY = "trial.json"  # in that: whose trial it is
PRIVATE = 0o600  # of files with a trainer's variables, among which there may be secrets
TO_KEEP = 2  # checkpoints of a trial: should one be torn, the one before is gone on from
_UNSOUND = "unsound-"
_MARGIN = 1.1


def remove(saves: Sequence[Checkpoint]) -> None:
    """Remove checkpoints; what cannot be removed is left."""
    for save in saves:
        _remove(save.path)


def put_aside(checkpoint: Path) -> None:
    """Give a checkpoint that cannot be read a name by which it is not found; only the last one is kept."""
    remove_aside(checkpoint.parent)
    with suppress(OSError):  # of the storage, which may also be why it could not be read: nothing is thrown away then
        checkpoint.rename(checkpoint.with_name(f"{_UNSOUND}{checkpoint.name}"))


def has_aside(folder: Path) -> bool:
    """Whether a checkpoint was put aside, and none was saved since."""
    return any(folder.glob(f"{_UNSOUND}*"))


def remove_aside(folder: Path) -> None:
    """Remove the checkpoint that was put aside: a later one is whole."""
    for path in folder.glob(f"{_UNSOUND}*"):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def checkpoints_of(config: TrialConfig, folder: Path) -> list[tuple[int, tuple[Path, ...]]]:
    """Return the complete checkpoints in a trial's folder, the newest first, each with all that it needs to go on."""
    points = [path for path in (folder / METRICS,) if path.exists()]
    if config.trainer is None:
        return [(saved.step, (saved.path, *points)) for saved in checkpoints.saved(folder)]
    own = folder / FOLDER
    saves = driver_of(config).checkpoints(config, own) if own.is_dir() else ()
    return [(save.step, (save.path, *save.beside, own / IDENTITY, *points)) for save in saves]


def newest_step(config: TrialConfig, folder: Path) -> int | None:
    """Return the step of the newest complete checkpoint in a trial's folder."""
    return next((step for step, _ in checkpoints_of(config, folder)), None)


def remove_checkpoints(config: TrialConfig, folder: Path) -> None:
    """Remove a trial's checkpoints, whoever trained it; its points and logs stay."""
    checkpoints.remove(folder)
    own = folder / FOLDER
    if config.trainer is not None and own.is_dir():
        remove(driver_of(config).checkpoints(config, own))


def require_room(newest: Checkpoint | None, folder: Path) -> None:
    """Raise CheckpointError where two more checkpoints of the newest one's size find no room.

    A trainer keeps two, and writes the third before it removes the first: what fails then has cost a whole segment.
    """
    if newest is None:
        return
    needed = round(TO_KEEP * _MARGIN * size_of(newest.path))
    if shutil.disk_usage(folder).free < needed:
        raise CheckpointError(f"a segment is not begun, for its checkpoints find no room: {room(folder, needed)}")


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; what vanishes meanwhile counts for nothing."""
    if path.is_file():
        return path.stat().st_size
    total = 0
    for above, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(above, name)).st_size
            except OSError:
                continue
    return total
