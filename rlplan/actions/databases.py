"""Keeps what is written for people from taking the place of a database."""

from pathlib import Path

from budgets.errors import InputError

_BEGINNING = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")  # files that are a part of the one that they lie beside


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
            return file.read(len(_BEGINNING)) == _BEGINNING
    except OSError:
        return False
