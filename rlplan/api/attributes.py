"""Attributes of the API's objects that lie deeper in what they wrap."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rlplan.api.wording import reworded

T = TypeVar("T")


class Read(property, Generic[T]):
    """A property that reads what lies at a path, such as 'fitted.fit.curve', and says what that is."""

    def __init__(self, path: str, doc: str) -> None:
        super().__init__(attrgetter(path), doc=doc)

    if TYPE_CHECKING:
        # property's own is overloaded: of the class it is the property itself, of which no program of ours asks.
        def __get__(self, instance: Any, owner: type | None = None, /) -> T: ...  # type: ignore[override]


class Said(Read[tuple[str, ...]]):
    """Such a property of lines that speak of flags, and here are to speak of arguments."""

    def __init__(self, path: str, doc: str) -> None:
        lines = attrgetter(path)
        property.__init__(self, lambda each: tuple(map(reworded, lines(each))), doc=doc)
