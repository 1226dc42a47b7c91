"""Columns of tables: the names of those that several answers share, and rows spread over their columns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Final, TypeAlias

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
