"""Answers: what a command finds is one frozen object, of which JSON, CSV and the screen are made here."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar, overload

from budgets.errors import UnknownNameError
from planner.axes import format_axes
from rlplan.exits import ExitCode
from rlplan.wording.command_lines import DEFAULT_DATABASE, Format
from rlplan.wording.file_writing import write_csv
from rlplan.wording.numbers import steps
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, Part, drawn, print_drawn, tell

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
    found = (key for base in reversed(kind.__mro__) for key in vars(base).values() if isinstance(key, Key))
    return tuple({key.name: key for key in found}.values())


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field_.name for field_ in fields(kind) if field_.repr)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: axes are an object and come last, and what is no finite number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return _document(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, Path) else value


def _document(value: Any) -> dict[str, Any]:
    """Return fields that are not hidden from `repr`, and keys; axes that are no key only where there are any."""
    kind: Any = type(value)
    document = _document(value.of) if isinstance(value, View) and value.WHOLE else {}
    document |= {name: plain(getattr(value, name)) for name in _names(kind) if name != "axes"}
    for key in keys_of(kind):
        of_key = plain(key.fget(value)) if key.fget else None
        if of_key is not None or not key.optional:
            document[key.name] = of_key
    if "axes" in _names(kind) and value.axes:
        document["axes"] = plain(dict(value.axes))
    return document


RANK: Column[Any] = Column("#", attrgetter("rank"))
SIZE: tuple[Column[Any], ...] = (
    Column("n", attrgetter("rollouts_per_prompt")),
    Column("B", attrgetter("prompts_per_batch")),
    Column("steps", lambda row: steps(row.update_steps)),
)


def axes_column(rows: Sequence[Any], heading: str = "with") -> Column[Any]:
    """Return the column of the further axes, which is shown where a row has one."""
    return Column(heading, lambda row: format_axes(row.axes), Cells.TEXTS, shown=any(row.axes for row in rows))


Columns: TypeAlias = tuple[str, ...]


def columns(text: str) -> Columns:
    """Return the columns that a text lists."""
    return tuple(text.split())


def spread(names: Columns, rows: Iterable[object]) -> tuple[Columns, list[dict[str, Any]]]:
    """Return rows, objects or mappings, by columns; each of their further `axes` is a column `axis_…` behind these.

    What is no plain value is JSON.
    """
    listed = list(rows)
    axes = [{f"axis_{name}": value for name, value in dict(_field(row, "axes") or ()).items()} for row in listed]
    further = tuple(dict.fromkeys(name for cells in axes for name in cells))
    plain = ({name: _cell(_field(row, name)) for name in names} for row in listed)
    return (*names, *further), [row | dict.fromkeys(further) | cells for row, cells in zip(plain, axes, strict=True)]


def _field(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


def _cell(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value


TRIALS: Final = columns("""
    trial rollouts_per_prompt prompts_per_batch learning_rate seed state attempt step pilot_steps gpu_hours_spent score
    score_standard_error expected_score score_low score_high probability_best failure_class
""")
RANKED: Final = columns("""
    rank rollouts_per_prompt prompts_per_batch update_steps learning_rate recipe expected_score score_low score_high
    probability_best gpu_hours_spent gpu_hours_to_target status
""")
DECISIONS: Final = columns("number at action trial reason seen alternatives")


class PythonCall(Protocol):
    """Returns the call for a command, or for the function that was asked, again; None where Python has none."""

    def __call__(self, line: str, asked: str) -> str | None:
        """Return it."""


WIDTH = 100  # columns of what `print` shows


class Answer:
    """What a command finds. Fields that are hidden from `repr` are hidden from JSON too."""

    DRAWN: ClassVar[str]  # the module whose `parts` draw it for a person; it is loaded when that is wanted
    COLUMNS: ClassVar[Columns]  # of CSV; further axes follow
    ROWS: ClassVar[str] = ""  # the path of the rows; without one it is a single row itself
    KEYS: ClassVar[tuple[str, ...]] = ()  # fields that each row of CSV begins with
    TOLD: ClassVar[str] = ""  # the field of notes
    python_call: ClassVar[PythonCall | None] = None  # set by the Python API

    @property
    def code(self) -> ExitCode:
        """What the command ends with."""
        return ExitCode.DONE

    @property
    def stderr(self) -> Sequence[str]:
        """What is written beside it, on stderr: what to mind, where it has such notes."""
        return [f"note: {note}" for note in getattr(self, self.TOLD)] if self.TOLD else ()

    @property
    def listed(self) -> Sequence[Any]:
        """Its rows: objects or mappings with a value for each column."""
        rows: Sequence[Any] = attrgetter(self.ROWS)(self) if self.ROWS else [self]
        return rows

    def table(self) -> tuple[Columns, list[dict[str, Any]]]:
        """Return columns and rows, each further axis in a column of its own."""
        return spread(self.COLUMNS, self.listed)

    @property
    def document(self) -> Any:
        """What JSON has of it; its own fields and keys, unless another type is returned here."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the document that the command prints with `--format json`."""
        document: dict[str, Any] = plain(self.document)
        return document

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterable[Part]:
        """Draw it for a person."""
        parts: Iterable[Part] = import_module(self.DRAWN).parts(self, invocation, canvas)
        return parts

    def emit(self, format: Format, invocation: Invocation) -> ExitCode:
        """Print it in a format, and return what the command ends with."""
        for line in self.stderr:
            tell(line)
        if format is Format.JSON:
            json.dump(self.to_dict(), sys.stdout, indent=2, allow_nan=False)
            sys.stdout.write("\n")
        elif format is Format.CSV:
            columns, rows = self.table()
            keys = {name: getattr(self, name) for name in self.KEYS}
            plainly = ({name: plain(cell) for name, cell in (keys | row).items()} for row in rows)
            write_csv(sys.stdout, (*keys, *columns), plainly)
        else:
            print_drawn(lambda canvas: self.parts(invocation, canvas))
        return self.code

    @property
    def summary(self) -> str:
        """Its first line."""
        return str(self).partition("\n")[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary}>"

    def __str__(self) -> str:
        called = Invocation((), getattr(self, "database", DEFAULT_DATABASE), explain=True)
        verb = getattr(self, "DRAWN", type(self).__module__).rpartition(".")[2].partition("_")[0]
        call = type(self).python_call
        calls = None if call is None else partial(call, asked=verb)
        return drawn(lambda canvas: self.parts(called, canvas), WIDTH, python=calls).rstrip("\n")


Member = TypeVar("Member")


@dataclass(frozen=True, repr=False)
class Several(Answer, Sequence[Member]):
    """The members, by place or by name; what could not be read is in `failures`."""

    MEMBERS: ClassVar[str]  # the path to them
    NAMED: ClassVar[str] = "name"  # what each is known by

    failed: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    drawn: tuple[str, ...] = field(default=(), kw_only=True, repr=False)  # what was drawn, in a sentence

    failures = Read[tuple[str, ...]]("failed", "A line for each file or curve that could not be read.")

    @property
    def code(self) -> ExitCode:
        """That of bad input where something failed."""
        return ExitCode.BAD_INPUT if self.failed else ExitCode.DONE

    @property
    def stderr(self) -> Sequence[str]:
        """What failed, and where it was drawn."""
        return [*(f"rlplan: {line}" for line in self.failed), *self.drawn]

    @property
    def _members(self) -> Sequence[Member]:
        members: Sequence[Member] = attrgetter(self.MEMBERS)(self)
        return members

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, which: int | str) -> Member: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Member]: ...
    def __getitem__(self, which: int | str | slice) -> Member | Sequence[Member]:
        if not isinstance(which, str):
            return self._members[which]
        by_name: dict[str, Member] = {str(getattr(member, self.NAMED)): member for member in self}
        if which not in by_name:
            raise UnknownNameError(self.NAMED, which, by_name)
        return by_name[which]
