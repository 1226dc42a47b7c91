"""What all tables share: the base class, the column types, and how constraints are named."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    Enum,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.types import TypeEngine

from budgets.errors import InputError, StoreError
from planner.axes import as_text, from_text
from planner.view import Axes


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC; always aware in Python, also from SQLite, which keeps no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turn an aware moment into UTC; a naive one is refused, since nobody knows what it means."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise InputError(f"the time {value.isoformat()} has no time zone; give an aware one, such as UTC")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the moment back as UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class AxesText(TypeDecorator[Axes]):
    """The axes beside n and B as a JSON object in a string, which every database can compare, unlike its JSON type."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: Axes | None, dialect: Dialect) -> str | None:
        """Write the axes."""
        return None if value is None else as_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Axes | None:
        """Read the axes."""
        return None if value is None else from_text(value)


def _finite(value: Any) -> Any:
    if value is None or math.isfinite(value):
        return value
    raise ValueError(f"{value} is no finite number")


def _is(kind: type, name: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value is None or value.__class__ is kind:
            return value
        raise ValueError(f"{value!r} is no {name}")

    return check


class Strict(TypeDecorator[Any]):
    """A type that refuses to read what it cannot be, which SQLite would hand out: a damaged value goes no further.

    The checks stand in the place of a result processor: tens of thousands of points pass through them.
    """

    impl: Any = String
    cache_ok = True

    def __init__(self, kind: type[TypeEngine[Any]], check: Callable[[Any], Any]) -> None:
        super().__init__()
        self.kind, self.check = kind, check
        self.impl = kind()

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Return the check."""
        return self.check


whole, text = _is(int, "whole number"), _is(str, "text")
NAME, NUMBER, WHOLE = Strict(String, text), Strict(Double, _finite), Strict(Integer, whole)


class _Stored(dict[str, Any]):
    """An object as it is stored: a key that somebody took out of it by hand is damage, and no bug."""

    def __missing__(self, key: str) -> Any:
        options = ", ".join(list(self)[:5]) or "nothing"
        raise StoreError(
            f"the database is damaged: a stored document has no '{key}' (it has {options}). Go back to a copy of it, "
            "or mend that row"
        )


def _stored(value: Any) -> Any:
    """Return a document whose objects, at whatever depth, say that they are damaged where a key is missing."""
    if isinstance(value, dict):
        document = _Stored(value)
        document.update((key, _stored(inner)) for key, inner in value.items() if isinstance(inner, dict | list))
        return document
    return [_stored(inner) for inner in value] if isinstance(value, list) else value


class Document(TypeDecorator[Any]):
    """A JSON object or list; an absent one is SQL NULL, never the JSON text "null"."""

    impl = JSON
    cache_ok = True

    def __init__(self, kind: type = dict) -> None:
        super().__init__(none_as_null=True)
        self.kind = kind

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Give back what is of the right shape."""
        if value is None or isinstance(value, self.kind):
            return _stored(value)
        raise ValueError(f"{value!r} is no {'object' if self.kind is dict else 'list'}")


class Base(DeclarativeBase):
    """Base of every table; constraints are named so that a migration can address them on any database."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy wants a plain class attribute)
        datetime: UtcTime,
        float: NUMBER,
        int: WHOLE,
        str: NAME,
        dict[str, Any]: Document(dict),
        list[Any]: Document(list),
    }


def values_of(row: Base, *without: str) -> dict[str, Any]:
    """Return what a row has in its columns, by name."""
    names: list[str] = row.__table__.columns.keys()
    return {name: getattr(row, name) for name in names if name not in without}


PrimaryKey = Annotated[int, mapped_column(primary_key=True)]
Large = Annotated[int, mapped_column(Strict(BigInteger, whole))]  # a count beyond 2³¹, or a seed
LongText = Annotated[str, mapped_column(Strict(Text, text))]
FurtherAxes = Annotated[Axes, mapped_column(AxesText, default=(), server_default="{}")]


def child_of(table: str) -> ForeignKey:
    """Refer to a parent without which the row means nothing; it goes when the parent goes."""
    return ForeignKey(f"{table}.id", ondelete="CASCADE")


def may_refer_to(table: str) -> ForeignKey:
    """Refer to a row that may go; what refers to it stays, with NULL."""
    return ForeignKey(f"{table}.id", ondelete="SET NULL")


def one_of(kind: type[StrEnum], column: str) -> Enum:
    """Store an enumeration as its plain string, with a CHECK constraint named after the column."""
    return Enum(
        kind,
        name=column,
        native_enum=False,
        create_constraint=True,
        length=16,
        values_callable=lambda members: [member.value for member in members],
    )
