"""Tables for a person: each is a list of its columns, of which each says how a row is written in it."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from planner.axes import format_axes
from rlplan.wording.numbers import steps
from rlplan.wording.terminal import Canvas

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Row = TypeVar("Row")


class Cells(Enum):
    """How the cells of a column lie."""

    NUMBERS = "to the right and never broken"
    NAMES = "to the left and never broken"
    TEXTS = "to the left and broken between words"
    PATHS = "to the left and broken anywhere"


UNBROKEN = (Cells.NUMBERS, Cells.NAMES)
LEGIBLE = 20  # signs of a text on a line, below which a column that gives way is left out for it
NARROWEST = 6  # signs that are left of a line which can be broken anywhere
GAP = 2


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """What a column is called, how a row is written in it, and whether it is shown: always, or where there is room."""

    heading: str
    written: Callable[[Row], object]
    cells: Cells = Cells.NUMBERS
    shown: bool = True
    gives_way: bool = False


RANK: Column[Any] = Column("#", attrgetter("rank"))
SIZE: tuple[Column[Any], ...] = (
    Column("n", attrgetter("rollouts_per_prompt")),
    Column("B", attrgetter("prompts_per_batch")),
    Column("steps", lambda row: steps(row.update_steps)),
)


def axes_column(rows: Sequence[Any], heading: str = "with") -> Column[Any]:
    """Return the column of the further axes, which is shown where a row has one."""
    return Column(heading, lambda row: format_axes(row.axes), Cells.TEXTS, shown=any(row.axes for row in rows))


def listed(heading: str, lines: Sequence[str]) -> "Iterator[RenderableType]":
    """Return lines below a heading and a little to the right of it; nothing where there are none."""
    from rich.padding import Padding  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if lines:
        yield Text(f"\n{heading}", "bold")
        yield from (Padding(line, (0, 0, 0, 2), expand=False) for line in lines)


def shortened(text: str, signs: int) -> str:
    """Return a text of so many signs at most, cut between words with a mark that it was."""
    return textwrap.shorten(text, signs, placeholder=" …", break_on_hyphens=False)


def table_of(
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    canvas: Canvas,
    *,
    dim: Callable[[Row], bool] = lambda _: False,
    headed: bool = True,
) -> "Table":
    """Return a table without lines, written with the signs that the canvas has."""
    from rich.table import Table  # noqa: PLC0415

    rows = list(rows)
    written = {
        column: [canvas.spelled(column.heading), *(canvas.spelled(str(column.written(row))) for row in rows)]
        for column in columns
        if column.shown
    }
    room = _make_room(written, canvas.width)
    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1), show_header=headed)
    for column, (heading, *_) in written.items():
        made.add_column(
            heading,
            justify="right" if column.cells is Cells.NUMBERS else "left",
            no_wrap=room >= 0 and column.cells in UNBROKEN,
            overflow="fold",
            max_width=NARROWEST + max(room, 0) if column.cells is Cells.PATHS else None,
        )
    for row, cells in zip(rows, zip(*(cells[1:] for cells in written.values()), strict=True), strict=True):
        made.add_row(*cells, style="dim" if dim(row) else None)
    return made


def _make_room(written: dict[Column[Row], list[str]], width: int) -> int:
    """Leave out columns that give way, the last first, while there is no room; return what is left beside all words."""
    for column in [column for column in reversed(written) if column.gives_way]:
        if _width(written, text=LEGIBLE) > width:
            del written[column]
    return width - _width(written, text=0)


def _width(written: Mapping[Column[Row], Sequence[str]], text: int) -> int:
    """Return what a table takes, with texts of at least so many signs and in no case broken within a word."""
    from rich.cells import cell_len  # noqa: PLC0415

    def least(column: Column[Row], cells: Sequence[str]) -> int:
        whole = max(map(cell_len, cells))
        match column.cells:
            case Cells.TEXTS:
                return max(min(whole, text), *(cell_len(word) for cell in cells for word in cell.split(" ")))
            case Cells.PATHS:
                return min(whole, NARROWEST)
        return whole

    return sum(least(column, cells) for column, cells in written.items()) + GAP * (len(written) - 1)
