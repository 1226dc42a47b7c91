"""Random search: trials in random order, each to the end of its pilot."""

from collections.abc import Sequence

import numpy as np

from planner.sweeping.actions import Action
from planner.sweeping.advancing import advances, at_end, nothing_left
from planner.sweeping.table import Table, next_boundary
from planner.view import View


class RandomSearch:
    """Takes trials in a random order and gives each its whole pilot before the next one starts."""

    def __init__(self) -> None:
        self._table = Table()

    @property
    def name(self) -> str:
        """The name under which `--policy` knows it."""
        return "random"

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        table = self._table
        table.follow(view)
        goal = np.minimum(table["pilot"], table["most"])
        # A number for each row, rather than a permutation: it stays when more trials are added.
        lot = np.random.default_rng(view.seed).random(len(table))
        wanted = table["ready"] & (table["step"] < goal)
        rows = np.flatnonzero(wanted & table.affordable(view.gpu_hours_left))
        rows = rows[np.lexsort((lot[rows], table["step"][rows] == 0))]

        def segment(row: int) -> int:
            return min(next_boundary(table.trials[row]), int(goal[row]))

        taken = advances(
            view,
            table,
            rows.tolist(),
            segment,
            lambda row, _to: (
                ("random search finishes the pilots it has begun", {"lot": float(lot[row])})
                if table["step"][row] > 0
                else (f"its lot is {lot[row]:.4f}, the lowest of those that have not begun", {"lot": float(lot[row])})
            ),
        )
        done = "every trial that can be trained has had its pilot"
        return [*at_end(table, goal), *(taken or nothing_left(view, table, wanted, done))]
