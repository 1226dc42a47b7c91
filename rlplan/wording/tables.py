"""Tables for a person: each is a list of its columns, of which each says how a row is written in it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from planner.axes import said
from rlplan.wording.numbers import steps
from rlplan.wording.terminal import Canvas

if TYPE_CHECKING:
    from rich.table import Table

Row = TypeVar("Row")


class Cells(Enum):
    """How the cells of a column lie."""

    NUMBERS = "to the right and never broken"
    NAMES = "to the left and never broken"
    TEXTS = "to the left and broken between words"
    PATHS = "to the left and broken anywhere"


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """What a column is called, how a row is written in it, and whether it is shown."""

    heading: str
    written: Callable[[Row], object]
    cells: Cells = Cells.NUMBERS
    shown: bool = True


RANK: Column[Any] = Column("#", attrgetter("rank"))
SIZE: tuple[Column[Any], ...] = (
    Column("n", attrgetter("rollouts_per_prompt")),
    Column("B", attrgetter("prompts_per_batch")),
    Column("M", lambda row: steps(row.update_steps)),
)


def axes_column(rows: Sequence[Any], heading: str = "with") -> Column[Any]:
    """Return the column of the further axes, which is shown where a row has one."""
    return Column(heading, lambda row: said(row.axes), Cells.TEXTS, shown=any(row.axes for row in rows))


def bare_table(*, headed: bool = True) -> "Table":
    """Return a table without lines and columns."""
    from rich.table import Table  # noqa: PLC0415

    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1), show_header=headed)


def table_of(
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    canvas: Canvas,
    *,
    dim: Callable[[Row], bool] = lambda _: False,
    headed: bool = True,
) -> "Table":
    """Return a table without lines, written with the signs that the canvas has."""
    made = bare_table(headed=headed)
    shown = [column for column in columns if column.shown]
    for column in shown:
        made.add_column(
            canvas.spelled(column.heading),
            justify="right" if column.cells is Cells.NUMBERS else "left",
            no_wrap=column.cells in (Cells.NUMBERS, Cells.NAMES),
            overflow="fold" if column.cells is Cells.PATHS else "ellipsis",
        )
    for row in rows:
        cells = (canvas.spelled(str(column.written(row))) for column in shown)
        made.add_row(*cells, style="dim" if dim(row) else None)
    return made
