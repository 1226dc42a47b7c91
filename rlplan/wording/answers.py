"""Answers: what a command finds is one frozen object, of which JSON and CSV are made here."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar, overload

from budgets.errors import UnknownNameError
from rlplan.exits import ExitCode
from rlplan.wording.documents import Read, plain
from rlplan.wording.draw import Canvas, Invocation, Part, drawn, print_drawn
from rlplan.wording.file_writing import write_csv
from rlplan.wording.formats import DEFAULT_DATABASE, Format
from rlplan.wording.row_columns import Columns, spread
from rlplan.wording.terminal import tell


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
        asked = getattr(self, "DRAWN", type(self).__module__).rpartition(".")[2].partition("_")[0]
        call = type(self).python_call
        calls = None if call is None else partial(call, asked=asked)
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
        return [*(f"rlplan: {each}" for each in self.failed), *self.drawn]

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
        by_name: dict[str, Member] = {str(getattr(each, self.NAMED)): each for each in self}
        if which not in by_name:
            raise UnknownNameError(self.NAMED, which, by_name)
        return by_name[which]
