"""Finds what is damaged in a database: a value that its column cannot hold, or a row whose parent is gone."""

from typing import Any

from sqlalchemy import Connection, ForeignKey, Table, select
from sqlalchemy.exc import OperationalError

from planner.store.base import Base

# What a column's type raises for a value that it cannot be: no JSON, no date, no number, no text.
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)
LONGEST = 80  # signs of what is wrong


def damage(connection: Connection) -> str | None:
    """Return in a sentence what is damaged first; None where every row can be read and has its parents.

    Everything is read for it: this is for when reading has failed already.
    """
    found = (_of_table(connection, table) for table in Base.metadata.sorted_tables)
    return next((each for each in found if each is not None), None)


def undecodable(error: Exception) -> bool:
    """Whether a driver says of a text that it is none."""
    return isinstance(error, OperationalError) and "decode" in str(error)


def _of_table(connection: Connection, table: Table) -> str | None:
    for column in table.columns:
        wrong = _first_unreadable(connection, table, column)
        if wrong is not None:
            return wrong
    for reference in sorted(table.foreign_keys, key=lambda each: each.parent.name):
        orphan = _first_orphan(connection, table, reference)
        if orphan is not None:
            return orphan
    return None


def _first_unreadable(connection: Connection, table: Table, column: Any) -> str | None:
    keys = tuple(table.primary_key)
    read = 0
    try:
        for _ in connection.execute(select(column).order_by(*keys)):
            read += 1
    except (*UNREADABLE, OperationalError) as error:
        if isinstance(error, OperationalError) and not undecodable(error):
            raise
        line = next(iter(str(error).splitlines()), type(error).__name__)
        shown = line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
        return f"table {table.name}, {column.name} of row {read + 1} cannot be read ({shown})"
    return None


def _first_orphan(connection: Connection, table: Table, reference: ForeignKey) -> str | None:
    parent = reference.column
    wanted = select(reference.parent).where(reference.parent.is_not(None), reference.parent.not_in(select(parent)))
    gone = connection.execute(wanted.limit(1)).first()
    if gone is None:
        return None
    return f"table {table.name}, a row belongs to {parent.table.name} {gone[0]}, which is not there"
