"""A trainer's checkpoints: which are complete, how many stay, and what room they take."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from budgets.errors import CheckpointError
from planner.disk import room
from runner.trainers.driver import Checkpoint

STEP = "{step}"
FOLDER = "trainer"  # in a trial's folder: everything of its trainer
IDENTITY = "trial.json"  # in that: whose trial it is
PRIVATE = 0o600  # of files with a trainer's variables, among which there may be secrets
TO_KEEP = 2  # checkpoints of a trial: should one be torn, the one before is gone on from
_UNSOUND = "unsound-"
_MARGIN = 1.1


def numbered(folder: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Yield what has a name such as `checkpoint-{step}`, relative to the folder, with its number as it is written.

    `*` stands for any name.
    """
    before, _, after = pattern.partition(STEP)
    expression = re.compile(f"{_glob(before)}(\\d+){_glob(after)}")
    for path in folder.glob(pattern.replace(STEP, "*")):
        if match := expression.fullmatch(str(path.relative_to(folder))):
            yield match[1], path


def complete(folder: Path, pattern: str, tracker: str | None = None, holds: Sequence[str] = ()) -> list[Checkpoint]:
    """Return the complete checkpoints, the newest first: those that hold what they should, up to the tracker's step.

    The tracker is written after a checkpoint, so that one beyond it is torn. One that is missing, empty or torn itself
    counts for nothing: the newest that holds everything is then taken for complete. An attempt begins by writing the
    step that it goes on from into it, else what an earlier one got to would vouch for what it writes anew.
    """
    newest = None
    if tracker is not None:
        with suppress(OSError, ValueError):
            newest = int((folder / tracker).read_text(encoding="utf-8"))
    saves = [
        Checkpoint(int(number), path)
        for number, path in numbered(folder, pattern)
        if all((path / name).exists() for name in holds) and (newest is None or int(number) <= newest)
    ]
    if newest is not None and tracker is not None:  # a copy of the checkpoint without it would be taken for torn
        saves = [replace(save, beside=(folder / tracker,)) for save in saves]
    return sorted(saves, key=lambda save: -save.step)


def _glob(text: str) -> str:
    return "[^/]*".join(re.escape(part) for part in text.split("*"))


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
