"""Columns that several tables have: a rank, the size of an allocation, its further axes."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from planner.axes import format_axes
from rlplan.wording.draw import Cells, Column
from rlplan.wording.numbers import steps

RANK: Column[Any] = Column("#", attrgetter("rank"))
SIZE: tuple[Column[Any], ...] = (
    Column("n", attrgetter("rollouts_per_prompt")),
    Column("B", attrgetter("prompts_per_batch")),
    Column("steps", lambda row: steps(row.update_steps)),
)


def axes_column(rows: Sequence[Any], heading: str = "with") -> Column[Any]:
    """Return the column of the further axes, which is shown where a row has one."""
    return Column(heading, lambda row: format_axes(row.axes), Cells.TEXTS, shown=any(row.axes for row in rows))
