"""What all tables share: the base class, the column types, and how constraints are named."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Enum, ForeignKey, MetaData, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, mapped_column

from budgets.errors import InputError
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
    # An absent JSON value is SQL NULL, never the JSON text "null".
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy wants a plain class attribute)
        datetime: UtcTime,
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


PrimaryKey = Annotated[int, mapped_column(primary_key=True)]
# Counts that a long run on a large cluster takes beyond 2³¹, and seeds.
Large = Annotated[int, mapped_column(BigInteger)]
LongText = Annotated[str, mapped_column(Text)]
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
