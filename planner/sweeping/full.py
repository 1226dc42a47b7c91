"""The full grid: every trial gets its whole pilot."""

from collections.abc import Sequence

import numpy as np

from planner.curves.curve import Vector
from planner.sweeping.actions import Action
from planner.sweeping.advancing import advances, at_end, nothing_left
from planner.sweeping.table import Table, next_boundary
from planner.view import View


class FullGrid:
    """Trains every trial to its pilot, segment by segment.

    While the money pays for all of that, one trial after the other, which saves start-ups; else the one that has had
    the smallest part of its pilot goes first, so that what the money buys is evenly spread.
    """

    def __init__(self) -> None:
        self._table = Table()

    @property
    def name(self) -> str:
        """The name under which `--policy` knows it."""
        return "full"

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        table = self._table
        table.follow(view)
        goal = np.minimum(table["pilot"], table["most"])
        wanted = table["ready"] & (table["step"] < goal)
        needed = pilots_price(table, goal)
        enough = needed <= view.gpu_hours_left
        rows = np.flatnonzero(wanted & table.affordable(view.gpu_hours_left))
        first = ~table["paused"][rows] if enough else (table["step"] / goal)[rows]
        rows = rows[np.argsort(first, kind="stable")]
        why = "the full grid trains every trial to the end of its pilot, " + (
            "one after the other" if enough else "and the least advanced first, since the money does not pay for all"
        )

        def segment(row: int) -> int:
            return min(next_boundary(table.trials[row]), int(goal[row]))

        taken = advances(view, table, rows.tolist(), segment, lambda _row, _to: (why, {"pilots_gpu_hours": needed}))
        done = "every trial that can be trained has had its pilot"
        return [*at_end(table, goal), *(taken or nothing_left(view, table, wanted, done))]


def pilots_price(table: Table, goal: Vector) -> float:
    """Return the GPU-hours that the rest of all pilots is expected to take, those now running left out."""
    rest = table["alive"] & ~table["running"] & (table["step"] < goal)
    return float((table["start_up"] + (goal - table["step"]) * table["per_step"])[rest].sum())
