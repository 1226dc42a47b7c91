"""The trials of a view as arrays, so that a decision among thousands of them needs no loop; and its actions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.axes import named_configuration
from planner.curves.curve import Vector
from planner.policy.actions import Action, Advance, Finish, Stop, Why
from planner.policy.grants import MARGIN, grant
from planner.view import ALIVE, TrialState, TrialView, View

FIELDS = np.dtype(
    [
        *((name, "?") for name in ("ready", "paused", "running", "resting", "alive", "proposed")),
        *((name, "f8") for name in ("step", "pilot", "segment", "most", "per_step", "start_up")),
    ]
)


def _row(trial: TrialView) -> tuple[bool | float, ...]:
    """Return what is kept of a trial, in the order of the fields."""
    state, alive = trial.state, trial.state in ALIVE
    return (
        trial.ready,
        state is TrialState.PAUSED,
        state is TrialState.RUNNING,
        trial.resting and alive,
        alive,
        trial.proposed,
        trial.step,
        trial.pilot_steps,
        trial.segment_steps,
        trial.most_steps,
        trial.gpu_hours_per_step,
        trial.start_up_gpu_hours,
    )


class TrialTable:
    """One row per trial, in planned order; only trials that are new objects since the last view are read."""

    def __init__(self) -> None:
        self.trials: list[TrialView] = []
        self._rows = np.zeros(0, dtype=FIELDS)

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, field: str) -> NDArray[Any]:
        return np.asarray(self._rows[field][: len(self.trials)])

    def follow(self, view: View) -> list[int]:
        """Take over a view, and return the rows that changed, in order."""
        trials, old = list(view.trials.values()), self.trials
        changed = [row for row, trial in enumerate(trials) if row >= len(old) or old[row] is not trial]
        if len(trials) > len(self._rows):
            self._rows = np.resize(self._rows, 2 * len(trials)) if old else np.zeros(len(trials), dtype=FIELDS)
        if changed:
            self._rows[changed] = [_row(trials[row]) for row in changed]
        self.trials = trials
        return changed

    def affordable(self, gpu_hours: float) -> NDArray[np.bool_]:
        """Which ready trials could make at least one step for so many GPU-hours."""
        return np.asarray(self["ready"] & (self["start_up"] + self["per_step"] <= gpu_hours / MARGIN))

    @property
    def waiting(self) -> bool:
        """Whether something may still happen by itself: a segment ends, or a trial has rested."""
        return bool(self["running"].any() or self["resting"].any())


def next_boundary(trial: TrialView) -> int:
    """The end of the segment in which the trial stands; a shortened segment is made whole."""
    return min((trial.step // trial.segment_steps + 1) * trial.segment_steps, trial.most_steps)


MOST_ALTERNATIVES = 5

Goal = Callable[[int], int]  # the step to which a row of the table is to be trained
Reason = Callable[[int, int], tuple[str, dict[str, Any]]]  # of training a row up to a step: sentence and numbers


def advances(view: View, table: TrialTable, rows: Sequence[int], goal: Goal, reason: Reason) -> list[Advance]:
    """Hand the first affordable rows to the free workers, and name the next ones as alternatives."""
    chosen: list[tuple[int, int]] = []
    money, place = view.gpu_hours_left, 0
    while place < len(rows) and len(chosen) < view.free_workers:
        row = int(rows[place])
        to_step = goal(row)
        if (granted := grant(table.trials[row], to_step, money)) is not None:
            chosen.append((row, to_step))
            money -= granted.gpu_hours
        place += 1
    if not chosen:
        return []
    alternatives: list[dict[str, Any]] = []
    for row in map(int, rows[place : place + MOST_ALTERNATIVES]):
        trial, to_step = table.trials[row], goal(row)
        alternative = {"action": "advance", "trial": trial.trial, "name": trial.name}
        alternatives.append({**alternative, "to_step": to_step, "price_gpu_hours": trial.price(to_step)})
    return [advance(view, table.trials[row], to_step, *reason(row, to_step), alternatives) for row, to_step in chosen]


def at_end(table: TrialTable, goals: Vector) -> list[Action]:
    """Close all paused trials that have reached their goals."""
    actions: list[Action] = []
    for row in np.flatnonzero(table["paused"] & (table["step"] >= goals)):
        trial, goal = table.trials[row], int(goals[row])
        figures = {"step": trial.step, "goal": goal}
        actions.append(Finish(trial.trial, Why(f"{named(trial)} has run all of its {goal:,} steps", figures)))
    return actions


def nothing_left(view: View, table: TrialTable, waiting: NDArray[np.bool_], done: str) -> list[Action]:
    """Stop when nothing is awaited and nothing can be started: for lack of money, or because all is done.

    `wanted` are the rows that the policy would train if it could, `done` what is so when there are none. Nothing is
    said while all workers are taken or away.
    """
    if table.waiting or view.free_workers < 1:
        return []
    figures: dict[str, Any] = {"gpu_hours_left": view.gpu_hours_left}
    if not waiting.any():
        return [Stop(Why(f"{done}; {hours(view.gpu_hours_left)} GPU-hours are left", figures))]
    rows = np.flatnonzero(waiting)
    prices = (table["start_up"] + table["per_step"])[rows]
    cheapest, price = table.trials[int(rows[np.argmin(prices)])], float(prices.min())
    reason = (
        f"the money is out: {hours(view.gpu_hours_left)} GPU-hours are left, and one more step of the cheapest trial, "
        f"{named(cheapest)}, needs {hours(price)} with its start-up, and a margin"
    )
    return [Stop(Why(reason, figures | {"least_price_gpu_hours": price, "cheapest_trial": cheapest.trial}))]


def named(trial: TrialView) -> str:
    """How a sentence calls a trial."""
    return named_configuration(trial.configuration)


def hours(gpu_hours: float) -> str:
    """GPU-hours for a sentence; what rounding leaves of nothing is 0."""
    return f"{gpu_hours:,.3g}" if 1e-9 < abs(gpu_hours) < 100 else f"{gpu_hours:,.0f}"


def advance(
    view: View, trial: TrialView, to_step: int, reason: str, numbers: dict[str, Any], ranked: list[dict[str, Any]]
) -> Advance:
    """Advance a trial, with what it costs before the reason."""
    price = trial.price(to_step)
    moves = "starts, up to" if trial.step == 0 else f"goes on from step {trial.step:,} to"
    spent = f"for {hours(price)} of the {hours(view.gpu_hours_left)} GPU-hours left"
    figures = {"step": trial.step, "price_gpu_hours": price, "gpu_hours_left": view.gpu_hours_left, **numbers}
    return Advance(
        trial.trial, to_step, Why(f"{named(trial)} {moves} step {to_step:,} {spent}: {reason}", figures, ranked)
    )
