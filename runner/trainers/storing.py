"""What a driven trial's checkpoints take on the disk: how many stay, and whether there is room for the next."""

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

FOLDER = "trainer"  # in a trial's folder: everything of its trainer
IDENTITY = "trial.json"  # in that: whose trial it is
PRIVATE = 0o600  # of files with a trainer's variables, among which there may be secrets
TO_KEEP = 2  # checkpoints of a trial: should one be torn, the one before is gone on from
_UNSOUND = "unsound-"
_MARGIN = 1.1


def remove(checkpoints: Sequence[Checkpoint]) -> None:
    """Remove checkpoints; what cannot be removed is left."""
    for each in checkpoints:
        _remove(each.path)


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


def remove_all(config: TrialConfig, folder: Path) -> None:
    """Remove every checkpoint of a trial that nobody goes on with."""
    own = folder / FOLDER
    if own.is_dir():
        remove(driver_of(config).checkpoints(config, own))


def parts_of(config: TrialConfig, folder: Path) -> list[tuple[int, tuple[Path, ...]]]:
    """Return each complete checkpoint of a trial, the newest first, with every file that goes with it."""
    own = folder / FOLDER
    found = driver_of(config).checkpoints(config, own) if own.is_dir() else ()
    return [(each.step, (each.path, *each.beside, own / IDENTITY)) for each in found]


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
