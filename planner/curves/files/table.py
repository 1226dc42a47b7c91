"""Tables of files as columns of text and numbers, and the rows that a restart makes twice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isnan

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Vector

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

# An error lists this many columns at most: a trainer logs hundreds.
LISTED = 20
_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class Table:
    """One file's columns in the order of its rows; NaN where a number is missing, '' where a text is.

    `pace` marks the rows of the most frequent kind (usually one a training step), from which a restart is seen best;
    None means that all rows are of one kind.
    """

    name: str
    columns: dict[str, Vector]
    text: dict[str, list[str]] = field(default_factory=dict)
    pace: Flags | None = None
    notes: tuple[str, ...] = ()
    trainer: str | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        first = next(iter(self.columns.values()), None)
        return len(next(iter(self.text.values()), ())) if first is None else first.size


def rows_of(table: Table, names: Iterable[str]) -> Iterator[dict[str, float]]:
    """Yield the numbers that each row has in some columns."""
    columns = {name: table.columns[name] for name in names}
    for begin in range(0, table.rows, _AT_ONCE):  # a number of numpy's takes ten times as long as one of Python's
        parts = [column[begin : begin + _AT_ONCE].tolist() for column in columns.values()]
        count = min(_AT_ONCE, table.rows - begin)
        for row in zip(*parts, strict=True) if parts else [()] * count:
            yield {name: value for name, value in zip(columns, row, strict=True) if not isnan(value)}


def listing(names: Iterable[str]) -> str:
    """List names for an error, in their order, at most twenty."""
    listed = list(names)
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return ", ".join(listed[:LISTED]) + more if listed else "(none)"


# With more backward jumps than this, and on more than this share of the rows, the order of a file means nothing; nor
# with more than anybody restarts a run.
MOST_RESTARTS, MOST_SHARE, MOST_EVER = 20, 0.05, 1_000
# Nor when the rows ascend for so few at a time.
SHORTEST_STRETCH = 3


@dataclass(frozen=True)
class Restart:
    """The counter went back: the last row before, the first row after, and where it went back to."""

    last: int
    first: int
    step: float


def newest(table: Table, rows: Rows, placed: Flags, counter: str) -> tuple[Rows, tuple[str, ...]]:
    """Leave out of a run's rows those that a newer attempt replaced, and say so; `placed` are the rows that count."""
    steps = table.columns[counter][rows]
    pace = np.isfinite(steps) if table.pace is None else np.isfinite(steps) & table.pace[rows]
    good, restarts = splice(steps, np.flatnonzero(pace), np.flatnonzero(placed[rows]))
    return (rows[good] if restarts else rows), restart_notes(restarts, counter, int((placed[rows] & ~good).sum()))


def restart_notes(restarts: list[Restart], counter: str, lost: int) -> tuple[str, ...]:
    """Return what is to be said of restarts, nothing where there are none."""
    where = ", ".join(f"{restart.step:g}" for restart in restarts[:5]) + (", …" if len(restarts) > 5 else "")
    return (f"restarted at {counter} {where}: {lost} earlier values replaced by the newest attempt",) * bool(restarts)


def splice(steps: Vector, pace: Rows, scored: Rows) -> tuple[Flags, list[Restart]]:
    """Mark the rows that hold good, newest attempt first: those at steps from a restart on are dropped from before it.

    Restarts are looked for in the rows that set the pace, and apply to all; then among the scores themselves, and apply
    to these. Rows of another kind that come late (an evaluation that finished after two more steps) start nothing.
    """
    restarts = _restarts(steps, pace)
    valid = ~_replaced(steps, restarts)
    for (
        restart
    ) in restarts:  # what the old attempt wrote after its last paced row; an evaluation before the first stays
        between = slice(restart.last + 1, restart.first)
        valid[between] &= steps[between] <= restart.step
    alive = scored[valid[scored]]
    again = _restarts(steps, alive)
    valid[alive] &= ~_replaced(steps, again)[alive]
    return valid, [*restarts, *again]


def _restarts(steps: Vector, rows: Rows) -> list[Restart]:
    """Find where a counter goes back, among some rows, over ground that it then covers again.

    Rows in no order, and stretches that were joined in the wrong order, are not restarts: nothing is repeated.
    """
    counter = steps[rows]
    starts = np.flatnonzero(np.diff(counter) < 0) + 1
    many = starts.size > MOST_RESTARTS and starts.size > min(MOST_SHARE * counter.size, MOST_EVER)
    if many or (starts.size > 1 and counter.size < SHORTEST_STRETCH * (starts.size + 1)):
        return []
    stretches = np.split(counter, starts)
    return [
        Restart(int(rows[start - 1]), int(rows[start]), float(counter[start]))
        for number, start in enumerate(starts.tolist(), start=1)
        if any(_covered(earlier, stretches[number]) for earlier in reversed(stretches[:number]))
    ]


def _covered(earlier: Vector, stretch: Vector) -> bool:
    """Say whether an earlier stretch has a step between the first and the last of this one; both ascend."""
    next_step = np.searchsorted(earlier, stretch[0])
    return bool(next_step < earlier.size and earlier[next_step] <= stretch[-1])


def _replaced(steps: Vector, restarts: list[Restart]) -> Flags:
    """Mark every row up to a restart that lies at its step or beyond."""
    bound = np.full(steps.size, np.inf)
    for restart in restarts:
        bound[restart.last] = restart.step
    lowest_ahead = np.minimum.accumulate(bound[::-1])[::-1]
    return np.isfinite(lowest_ahead) & (steps >= lowest_ahead)
