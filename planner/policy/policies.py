"""The policies by their names, and those that rlplan is measured against: they follow published rules."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgets.errors import UnknownNameError
from planner.belief.pool import Pool
from planner.curves.curve import Vector
from planner.percent import percent
from planner.policy.actions import Action, Policy, Prune, Why
from planner.policy.halving import Asha, Hyperband
from planner.policy.informed import InformedPolicy
from planner.policy.table import (
    MOST_ALTERNATIVES,
    Reason,
    TrialTable,
    advances,
    at_end,
    named,
    next_boundary,
    nothing_left,
)
from planner.view import TrialView, View


class _Pilots(ABC):
    """Trains every trial to its pilot, segment by segment, in an order of its own."""

    name: str
    done = "every trial that can be trained has run its pilot"

    def __init__(self) -> None:
        self._table = TrialTable()
        self._changed: list[int] = []  # rows that are new since the last decision, or that something happened to
        self._pruned: dict[int, Action] = {}  # by the row, in the decision under way

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        table = self._table
        self._changed = table.follow(view)
        goal = np.minimum(table["pilot"], table["most"])
        waiting = table["ready"] & (table["step"] < goal)
        rows = np.flatnonzero(waiting & table.affordable(view.gpu_hours_left))
        self._pruned = {}
        ordered, reason = self._in_order(view, goal, rows)
        waiting[list(self._pruned)] = False

        def to_pilot(row: int) -> int:
            return min(next_boundary(table.trials[row]), int(goal[row]))

        actions = advances(view, table, ordered, to_pilot, reason)
        left = actions or nothing_left(view, table, waiting, self.done)
        return [*self._pruned.values(), *at_end(table, goal), *left]

    @abstractmethod
    def _in_order(self, view: View, goal: Vector, rows: NDArray[np.intp]) -> tuple[list[int], Reason]:
        """Return the rows, the first to be trained first, and what is said of each."""


class FullGrid(_Pilots):
    """Trains one trial after the other while the money pays for all, which saves start-ups.

    Else the one that has had the smallest part of its pilot goes first, so that what the money buys is evenly spread.
    """

    name = "full"

    def _in_order(self, view: View, goal: Vector, rows: NDArray[np.intp]) -> tuple[list[int], Reason]:
        table = self._table
        rest = table["alive"] & ~table["running"] & (table["step"] < goal)
        needed = float((table["start_up"] + (goal - table["step"]) * table["per_step"])[rest].sum())
        enough = needed <= view.gpu_hours_left
        first = ~table["paused"][rows] if enough else (table["step"] / goal)[rows]
        why = "the full grid trains every trial to the end of its pilot, " + (
            "one after the other" if enough else "and the least advanced first, since the money does not pay for all"
        )
        return rows[np.argsort(first, kind="stable")].tolist(), lambda *_: (why, {"pilots_gpu_hours": needed})


class RandomSearch(_Pilots):
    """Takes trials in a random order and gives each its whole pilot before the next one starts."""

    name = "random"

    def _in_order(self, view: View, goal: Vector, rows: NDArray[np.intp]) -> tuple[list[int], Reason]:
        step = self._table["step"]
        # A number for each row, rather than a permutation: it stays when more trials are added.
        lot = np.random.default_rng(view.seed).random(len(self._table))

        def reason(row: int, _to_step: int) -> tuple[str, dict[str, Any]]:
            if step[row] > 0:
                return "random search finishes the pilots it has begun", {"lot": float(lot[row])}
            return f"its lot is {lot[row]:.4f}, the lowest of those that have not begun", {"lot": float(lot[row])}

        return rows[np.lexsort((lot[rows], step[rows] == 0))].tolist(), reason


MARKS = 64  # parts of a pilot at which running averages are compared
FEWEST_PEERS = 3  # a median of fewer says little; Ray Tune's rule has the same


class MedianStopping(_Pilots):
    """Stops a trial whose best score so far is below the median of the others' running averages at the same fraction.

    The fraction is that of each trial's own pilot, since pilots cost alike and not their steps. Others count as soon as
    they have come as far, finished or not. Every trial has one segment of grace. The least advanced goes first, so
    that there is something to compare with as early as can be.
    """

    name = "median"
    done = "every trial has run its pilot or fell below the median"

    def __init__(self) -> None:
        super().__init__()
        self._averages = np.zeros((0, MARKS + 1))

    def _in_order(self, view: View, goal: Vector, rows: NDArray[np.intp]) -> tuple[list[int], Reason]:
        """Judge trials when their turn comes."""
        table = self._table
        if (size := len(table)) > len(self._averages):
            more = np.full((2 * size - len(self._averages), MARKS + 1), np.nan)
            self._averages = np.vstack([self._averages, more])
        for row in self._changed:
            self._averages[row] = running_averages(table.trials[row])
        fraction = table["step"] / goal
        going: list[int] = []
        numbers: dict[int, dict[str, Any]] = {}
        for row in rows[np.argsort(fraction[rows], kind="stable")].tolist():
            if view.free_workers < 1 or len(going) >= view.free_workers + MOST_ALTERNATIVES:
                break
            compared = numbers[row] = self._compared(row, fraction[row])
            if not compared.get("below"):
                going.append(row)
                continue
            trial = table.trials[row]
            sentence = (
                f"the best score of {named(trial)} up to {percent(compared['fraction'])} of its pilot is "
                f"{compared['best_score']:.3f}, below {compared['median']:.3f}, the median of the running averages of "
                f"{compared['peers']} others there"
            )
            self._pruned[row] = Prune(trial.trial, Why(sentence, compared))
        return going, lambda row, _to_step: (_why_not(numbers[row]), numbers[row])

    def _compared(self, row: int, fraction: float) -> dict[str, Any]:
        """Return the numbers of the rule; `below` when the trial is to be stopped."""
        trial, numbers = self._table.trials[row], {"fraction": float(fraction)}
        scores = [point.score for point in trial.scores if point.step > 0]
        if not scores or trial.step < trial.segment_steps:
            return numbers
        column = self._averages[: len(self._table), int(fraction * MARKS + 1e-9)]
        peers = np.delete(column, row)
        peers = peers[~np.isnan(peers)]
        best = max(scores)
        numbers |= {"best_score": best, "peers": len(peers)}
        if len(peers) < FEWEST_PEERS:
            return numbers
        median = float(np.median(peers))
        return numbers | {"median": median, "below": best < median}


def running_averages(trial: TrialView) -> Vector:
    """Return the mean score up to each mark of the pilot, NaN where the trial has not come so far or has no score.

    The score before training is the same for all and is left out.
    """
    goal = min(trial.pilot_steps, trial.most_steps)
    points = [(point.step, point.score) for point in trial.scores if point.step > 0]
    averages = np.full(MARKS + 1, np.nan)
    if not points:
        return averages
    steps, scores = (np.asarray(part, dtype=float) for part in zip(*points, strict=True))
    marks = np.arange(MARKS + 1) / MARKS * goal
    counts = np.searchsorted(steps, marks + 1e-9, side="right")
    means = np.cumsum(scores) / np.arange(1, len(scores) + 1)
    reached = (counts > 0) & (marks <= trial.step + 1e-9)
    averages[reached] = means[counts[reached] - 1]
    return averages


def _why_not(numbers: dict[str, Any]) -> str:
    if "median" in numbers:
        return f"its best score {numbers['best_score']:.3f} is not below the others' median {numbers['median']:.3f}"
    if "best_score" in numbers:
        return f"only {numbers['peers']} others have come as far, too few for a median"
    return "the median rule grants every trial its first segment"


POLICIES = ("rlplan", "asha", "hyperband", "median", "random", "full")


def open_policy(name: str, *, search: str | None = None, pool: Pool | None = None) -> Policy:
    """Return a policy; `search` and `pool` are of rlplan."""
    makers: dict[str, Callable[[], Policy]] = {
        "rlplan": lambda: InformedPolicy(search=search, pool=pool),
        "asha": Asha,
        "hyperband": Hyperband,
        "median": MedianStopping,
        "random": RandomSearch,
        "full": FullGrid,
    }
    if name not in makers:
        raise UnknownNameError("policy", name, POLICIES)
    return makers[name]()
