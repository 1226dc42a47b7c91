"""A disk that is full is told in one way: where, how much room there is, how much is needed, and what to do."""

import errno
import os
import shutil
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# Of a storage that ails: as NFS, Lustre and ext4 fail, and come back.
AILING = tuple(os.strerror(number) for number in (errno.EROFS, errno.EIO, errno.ESTALE))
LEAST_ROOM = 2**17  # bytes free, below which SQLite may fail to write: its log, the log's index of 32 KiB, a page
DISK_IS_FULL = "the disk is full"  # also how the driver of a sweep knows it in what a worker reports
_MB = 1e6


def is_full(error: BaseException) -> bool:
    """Whether an error, or what led to it, is that no room is left, or none that this user may take."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def has_no_room(path: Path) -> bool:
    """Whether hardly anything is free where a path lies."""
    try:
        usage = shutil.disk_usage(_existing(path))
    except OSError:
        return False
    return usage.total > 0 and usage.free < LEAST_ROOM  # /proc and the like have no size at all


def room(path: Path, needed: int | None = None) -> str:
    """Say that the disk of a path is full, and what would help."""
    place = _existing(path)
    need = "" if needed is None else f", and {needed / _MB:.2f} MB are needed"
    try:
        free = f" has {shutil.disk_usage(place).free / _MB:.2f} MB free{need}"
    except OSError:
        free = " has no room"
    mount = next(folder for folder in (place, *place.parents) if os.path.ismount(folder) or folder == folder.parent)
    return f"{DISK_IS_FULL}: {mount}{free}. Make room there, or give a path on another disk"


def why(error: BaseException, path: Path, needed: int | None = None) -> str:
    """Say in a few words why a path could not be written."""
    if is_full(error):
        return room(path, needed)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def unwritten(path: Path, error: OSError, remedy: str, needed: int | None = None) -> str:
    """Say that a path could not be written, why, and what to do: the remedy, or to make room."""
    message = f"{path} cannot be written: {why(error, path, needed)}"
    return message if is_full(error) else f"{message}; {remedy}"


def _existing(path: Path) -> Path:
    """Return the nearest folder above a path, or the path itself, that is there."""
    path = Path(os.path.abspath(path))
    return next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))
