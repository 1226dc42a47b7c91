"""Documents: what JSON has of an object, from its fields and its keys; each is declared once, with its type."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

T = TypeVar("T")
AxisValues = Mapping[str, str | float]


class Read(property, Generic[T]):
    """A property that reads what lies at a path, such as 'fitted.fit.curve', and says what that is."""

    def __init__(self, path: str | Callable[[Any], Any], doc: str) -> None:
        super().__init__(attrgetter(path) if isinstance(path, str) else path, doc=doc)

    if TYPE_CHECKING:
        # property's own is overloaded: of the class it is the property itself, of which no program of ours asks.
        def __get__(self, instance: Any, owner: type | None = None, /) -> T: ...  # type: ignore[override]


class Key(Read[T]):
    """Such a property that the document has too, by its own name or another; an optional one only with a value."""

    def __init__(
        self, path: str | Callable[[Any], Any], doc: str = "", *, name: str = "", optional: bool = False
    ) -> None:
        super().__init__(path, doc)
        self.name, self.optional = name, optional

    def __set_name__(self, _: type, name: str) -> None:
        self.name = self.name or name


@dataclass(frozen=True)
class View(Generic[T]):
    """The document of an object of another package: keys that are read `of` it, behind its own fields if `WHOLE`."""

    WHOLE: ClassVar[type | None] = None  # its type

    of: T = field(repr=False)


@cache
def keys_of(kind: type) -> tuple[Key[Any], ...]:
    """Return the keys of a class, those of its bases first."""
    found = (each for base in reversed(kind.__mro__) for each in vars(base).values() if isinstance(each, Key))
    return tuple({each.name: each for each in found}.values())


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.repr)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: axes are an object and come last, and what is no finite number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return _document(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, Path) else value


def _document(value: Any) -> dict[str, Any]:
    """Return fields that are not hidden from `repr`, and keys; axes that are no key only where there are any."""
    kind: Any = type(value)
    found = _document(value.of) if isinstance(value, View) and value.WHOLE else {}
    found |= {name: plain(getattr(value, name)) for name in _names(kind) if name != "axes"}
    for each in keys_of(kind):
        of_key = plain(each.fget(value)) if each.fget else None
        if of_key is not None or not each.optional:
            found[each.name] = of_key
    if "axes" in _names(kind) and value.axes:
        found["axes"] = plain(dict(value.axes))
    return found
