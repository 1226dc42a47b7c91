"""Reads rows although some of them are damaged: those are left out and named, and the others are still told."""

import math
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import InstrumentedAttribute, Session

Key = InstrumentedAttribute[Any] | ColumnElement[Any]
# What a column's type raises for a value that it cannot be: no JSON, no date, none of an enumeration's values.
UNREADABLE = (ValueError, LookupError, TypeError)


class Damage:
    """What was left out while a sweep was read, each as a sentence."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def rows(
        self, session: Session | Connection, wanted: Select[*tuple[Any, ...]], what: str, *keys: Key
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """Return the rows that can be read; `keys` tell them apart, and `what` they are is how the others are named.

        Whole rows cost one query. Damaged ones are searched for by halving, so that each costs a few more.
        """
        try:
            return session.execute(wanted).all()
        except (*UNREADABLE, OperationalError) as error:
            _require_damage(error)
        counted = wanted.with_only_columns(*keys, maintain_column_froms=True).subquery()
        count = session.execute(select(func.count()).select_from(counted)).scalar_one()
        return self._halved(session, wanted.order_by(*keys), what, keys, 0, count)

    def _halved(
        self,
        session: Session | Connection,
        wanted: Select[*tuple[Any, ...]],
        what: str,
        keys: tuple[Key, ...],
        first: int,
        end: int,
    ) -> list[Row[*tuple[Any, ...]]]:
        part = wanted.offset(first).limit(end - first)
        try:
            return list(session.execute(part).all())
        except (*UNREADABLE, OperationalError) as error:
            _require_damage(error)
            if end - first == 1:
                key = session.execute(part.with_only_columns(*keys, maintain_column_froms=True)).one()
                self.found.append(f"{what} {', '.join(map(str, key))} cannot be read and is left out: {said(error)}")
                return []
        middle = (first + end) // 2
        return [
            *self._halved(session, wanted, what, keys, first, middle),
            *self._halved(session, wanted, what, keys, middle, end),
        ]

    def whole(self, row: Any, what: str) -> bool:
        """Whether a dataclass holds what its fields say; what does not is noted as left out."""
        wrong = misfit(row)
        if wrong is not None:
            self.found.append(f"{what} is left out: {wrong}")
        return wrong is None


def said(error: BaseException) -> str:
    """Say in one short line what is wrong with a value."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return line if len(line) <= 120 else f"{line[:119]}…"


def misfit(row: Any) -> str | None:
    """Name the first field of a dataclass whose value is none of its type, or a number that is not finite."""
    for name, allowed in _fields(cast(Hashable, type(row))):
        value = getattr(row, name)
        if not isinstance(value, allowed) or (type(value) is float and not math.isfinite(value)):
            shown = repr(value)
            return f"its {name} is {shown if len(shown) <= 40 else f'{shown[:39]}…'}"
    return None


@cache
def _fields(kind: Any) -> tuple[tuple[str, tuple[type, ...]], ...]:
    return tuple((name, _allowed(hint)) for name, hint in get_type_hints(kind).items())


def _allowed(hint: Any) -> tuple[type, ...]:
    """Return the classes of which a value must be one."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _allowed(part))
    kind = origin or hint
    if kind is float:
        return (float, int)
    if kind in (dict, Mapping):
        return (Mapping,)
    known = isinstance(kind, type) and (issubclass(kind, str | int | tuple | datetime | Enum | NoneType))
    return (kind,) if known else (object,)


def _require_damage(error: Exception) -> None:
    """Raise again what is wrong with the database as a whole: only texts that are no UTF-8 are a row's own fault."""
    if isinstance(error, OperationalError) and "decode" not in str(error):
        raise error
