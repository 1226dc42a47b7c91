"""Turns what a database driver raises into errors that say what to do, and finds what is damaged in a database."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, ForeignKey, Table, select
from sqlalchemy.exc import DBAPIError, NoResultFound, OperationalError, StatementError

from budgets.errors import RlplanError, StoreError, StoreUnavailableError
from planner.disk import has_no_room, room
from planner.store.base import Base

_NEEDS_DIRECTORY = (
    "cannot be opened: SQLite must be able to write beside it too (its -wal and -shm files). Make its directory "
    "writable, or copy the file to one that is"
)

# By SQLite's own name for what went wrong, in full or its first two words.
_SQLITE = {
    "SQLITE_BUSY": "is locked: another process has been writing to it all this time. Try again when it is done",
    "SQLITE_READONLY": "cannot be written: the file or its directory is read-only. Make both writable, or give another "
    "path with --db",
    "SQLITE_READONLY_DIRECTORY": _NEEDS_DIRECTORY,
    "SQLITE_READONLY_CANTINIT": _NEEDS_DIRECTORY,
    "SQLITE_CANTOPEN": _NEEDS_DIRECTORY,
    "SQLITE_CORRUPT": "is damaged; nothing in it was changed. Go back to a copy of it, or save what can be read: "
    "sqlite3 DAMAGED .recover | sqlite3 NEW",
    "SQLITE_NOTADB": "is not an SQLite database; it was left as it is. Give another path with --db",
    "SQLITE_FULL": "cannot be written: the disk is full. What was committed is safe; free some space and try again",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error",
}

# By which SQLite also says that no room is left, depending on what it was about to write.
_WITHOUT_ROOM = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")

# What passes: another writer ends, room is made, a disk or a network comes back.
_PASSING = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR")

_LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's code for a lock that was not given in time

# What a column's type raises for a value that it cannot be: no JSON, no date, no number, no text.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)
_LONGEST = 80  # signs of what is wrong


@contextmanager
def explained(shown: str, reader: Engine | None = None) -> Iterator[None]:
    """Raise StoreError, naming the database as shown, for what is wrong with the database and not with the caller.

    With a `reader` what is damaged is searched for, wherever it made the caller stumble.
    """
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        message = explain(error, shown)
        if message is None:
            _raise_damage(shown, reader, error)
            raise
        original = error.orig if isinstance(error, DBAPIError) else error
        passing = True  # PostgreSQL's server is locked or does not answer
        if isinstance(original, sqlite3.Error):
            passing = getattr(original, "sqlite_errorname", "").startswith(_PASSING)
        kind = StoreUnavailableError if passing else StoreError
        raise kind(f"{shown} {message}") from error
    except StatementError as error:
        # A column type of ours refused a value; SQLAlchemy wraps what it raised.
        if isinstance(error.orig, RlplanError):
            raise error.orig from None
        raise
    except RlplanError:
        raise
    except (*_UNREADABLE, NoResultFound) as error:
        _raise_damage(shown, reader, error)
        raise


def _raise_damage(shown: str, reader: Engine | None, error: Exception) -> None:
    """Raise StoreError for what is damaged, None where nothing is and the error is another's fault."""
    if reader is None:
        return
    with reader.connect() as connection:
        damage = _damage(connection)
    if damage is not None:
        raise StoreError(
            f"{shown} is damaged: {damage}. Go back to a copy of it, or mend or remove that row"
        ) from error


def explain(error: Exception, shown: str = "") -> str | None:
    """Say what is wrong and what to do; None when the error is not about the database's condition."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        name = getattr(original, "sqlite_errorname", "")
        if name.startswith(_WITHOUT_ROOM) and "://" not in shown and has_no_room(Path(shown)):
            return f"cannot be written: {room(Path(shown))}. What was committed is safe"
        return _SQLITE.get(name) or _SQLITE.get("_".join(name.split("_")[:2]))
    if getattr(original, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
        return _SQLITE["SQLITE_BUSY"]
    if isinstance(error, OperationalError):
        first_line = str(original).strip().partition("\n")[0]
        return f"does not answer: {first_line}. Check the address, and that the server runs and lets you in"
    return None


def _damage(connection: Connection) -> str | None:
    """Return in a sentence what is damaged first; None where every row can be read and has its parents.

    Everything is read for it: this is for when reading has failed already.
    """
    for table in Base.metadata.sorted_tables:
        references = sorted(table.foreign_keys, key=lambda key: key.parent.name)
        unreadable = (_first_unreadable(connection, table, column) for column in table.columns)
        orphans = (_first_orphan(connection, table, reference) for reference in references)
        if damage := next(filter(None, chain(unreadable, orphans)), None):
            return damage
    return None


def _first_unreadable(connection: Connection, table: Table, column: Any) -> str | None:
    keys = tuple(table.primary_key)
    read = 0
    try:
        for _ in connection.execute(select(column).order_by(*keys)):
            read += 1
    except (*_UNREADABLE, OperationalError) as error:
        if isinstance(error, OperationalError) and "decode" not in str(error):  # a text that is none is damage too
            raise
        line = next(iter(str(error).splitlines()), type(error).__name__)
        shown = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
        return f"table {table.name}, {column.name} of row {read + 1} cannot be read ({shown})"
    return None


def _first_orphan(connection: Connection, table: Table, reference: ForeignKey) -> str | None:
    parent = reference.column
    query = select(reference.parent).where(reference.parent.is_not(None), reference.parent.not_in(select(parent)))
    gone = connection.execute(query.limit(1)).first()
    if gone is None:
        return None
    return f"table {table.name}, a row belongs to {parent.table.name} {gone[0]}, which is not there"
