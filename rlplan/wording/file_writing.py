"""Writes files whole or not at all, in the place of nothing that must stay."""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from budgets.errors import InputError
from planner.disk import unwritten

_DATABASE_BEGINS = b"SQLite format 3\0"
Content = bytes | Callable[[BinaryIO], None]  # of a file: as it is, or what writes it, where it may be large
_BESIDE = ("-wal", "-shm", "-journal")  # files that are a part of the one that they lie beside


def write_file(path: Path, written: Content, *, force: bool) -> None:
    """Write a file whole or not at all; one that is there is only replaced by force."""
    path = path.resolve()
    require_room(path, force=force)
    put_file(path, written, force=force)


def put_file(path: Path, written: Content, *, force: bool) -> None:
    """Write a file as `write_file` does, at the path itself: a link there is replaced, and not what it leads to."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with _explained(path, len(written) if isinstance(written, bytes) else None):
        try:
            with part.open("xb") as file:
                if isinstance(written, bytes):
                    file.write(written)
                else:
                    written(file)
                file.flush()
                os.fsync(file.fileno())
            _put(part, path, force=force)
        finally:
            part.unlink(missing_ok=True)


def require_room(path: Path, *, force: bool) -> None:
    """Refuse a path that cannot be written, or that would replace something."""
    if not path.exists():
        return
    if not path.is_file():
        raise InputError(f"{path} is no file that can be written; give a path of a file, or - for stdout")
    if not force:
        raise _taken(path)
    refuse_database(path)


def refuse_database(path: Path) -> None:
    """Raise InputError for a path at which a database lies, or a part of one.

    Only for paths of which this process has no database open: to read such a file would drop its locks.
    """
    beside = [Path(str(path).removesuffix(suffix)) for suffix in _BESIDE if path.name.endswith(suffix)]
    for file in (path, *beside):
        if _is_database(file):
            raise InputError(f"{path} is a database, or a part of one, and is left as it is: give another path")


def _is_database(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_DATABASE_BEGINS)) == _DATABASE_BEGINS
    except OSError:
        return False


def _taken(path: Path) -> InputError:
    return InputError(f"{path} exists already; give another path, or --force to replace it")


def _put(part: Path, path: Path, *, force: bool) -> None:
    """Give a file its name; without force only one that no other file has got in the meantime."""
    if force:
        os.replace(part, path)
        return
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError:  # a file system without links
        require_room(path, force=False)
        os.replace(part, path)


@contextmanager
def _explained(path: Path, size: int | None) -> Iterator[None]:
    """Turn what the file system refuses into a sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(unwritten(path, error, "give a path in a folder that you may write", size)) from error


_END = "\r\n"


class _Lines:
    """A file whose lines end in a line feed, although the writer is told that they end in both signs.

    It quotes a cell that holds a sign of its line's end: of the feed alone, a log with a carriage return would be read
    back as two rows.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Write one row."""
        return self._file.write(f"{line[: -len(_END)]}\n")


def line_of(cells: Iterable[Any]) -> str:
    """Return one row as text, with its end."""
    written = io.StringIO()
    csv.writer(_Lines(written), lineterminator=_END).writerow(cells)
    return written.getvalue()


def write_csv(file: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows under a heading, which is there without any row too."""
    writer = csv.writer(_Lines(file), lineterminator=_END)
    writer.writerow(columns)
    writer.writerows(map(row.get, columns) for row in rows)
