"""Answers: what a command finds is one frozen object, of which JSON, CSV, frames and notebooks are made here."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from html import escape
from typing import Any, ClassVar

from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.frames import Columns, Frame, Library, make_frame, spread
from rlplan.wording.next_steps import Invocation
from rlplan.wording.terminal import Canvas, tell

SHOWN = 12  # rows in a notebook


def plain(value: Any) -> Any:
    """Return a value as JSON has it: axes are an object and come last, and what is no finite number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        named = {each.name: getattr(value, each.name) for each in fields(value) if each.repr}
        axes = dict(named.pop("axes", ()))
        return {name: plain(each) for name, each in named.items()} | ({"axes": axes} if axes else {})
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


class Answer:
    """What a command finds. Fields that are hidden from `repr` are hidden from JSON too."""

    COLUMNS: ClassVar[Columns]  # of CSV and of frames; further axes follow
    ROWS: ClassVar[str] = ""  # the field that holds the rows
    KEYS: ClassVar[tuple[str, ...]] = ()  # fields that each row of CSV begins with

    @property
    def notes(self) -> Sequence[str]:
        """What is said beside it, on stderr."""
        return ()

    @property
    def listed(self) -> Sequence[Any]:
        """Its rows: objects or mappings with a value for each column."""
        return getattr(self, self.ROWS)  # type: ignore[no-any-return]

    def table(self) -> tuple[Columns, list[dict[str, Any]]]:
        """Return columns and rows, each further axis in a column of its own."""
        return spread(self.COLUMNS, self.listed)

    def frame(self, frame: Library | None = None) -> Frame:
        """Return a row for each of what it lists, as a table of pandas, polars or pyarrow."""
        return make_frame(self.COLUMNS, self.listed, frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that the command prints with `--format json`."""
        return plain(self)  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        columns, rows = self.table()
        cells = [[_short(cell) for cell in row.values()] for row in rows[:SHOWN]]
        return page_part(f"{self!r}"[1:-1], list(columns), cells, hidden=len(rows) - len(cells))


def emit(
    answer: Answer,
    format: Format,
    parts: Callable[[Any, Invocation, Canvas], Iterable[Part]],
    invocation: Invocation,
) -> None:
    """Print an answer in a format; `parts` draws it for a person."""
    for note in answer.notes:
        tell(note)
    if format is Format.JSON:
        print_json(answer.to_dict())
    elif format is Format.CSV:
        columns, rows = answer.table()
        keys = {name: getattr(answer, name) for name in answer.KEYS}
        print_csv((*keys, *columns), ({name: plain(cell) for name, cell in (keys | row).items()} for row in rows))
    else:
        print_drawn(lambda canvas: parts(answer, invocation, canvas))


def _short(cell: Any) -> str:
    return "" if cell is None else f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def page_part(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, hidden: int = 0) -> str:
    """Return a heading, a table, and a line that says how many rows are not shown."""
    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    more = f"<p>… and {hidden:,} more</p>" if hidden > 0 else ""
    return (
        f"<div><p>{escape(heading)}</p>"
        f'<table class="dataframe"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>'
    )
