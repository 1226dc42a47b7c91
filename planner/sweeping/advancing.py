"""From an order of worth to actions: what the free workers take, what is closed, and when all is over."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.axes import said
from planner.curves.curve import Vector
from planner.sweeping.actions import Action, Advance, Finish, Stop, Why
from planner.sweeping.grants import grant
from planner.sweeping.table import Table
from planner.view import Configuration, TrialView, View

MOST_ALTERNATIVES = 5

Goal = Callable[[int], int]  # the step to which a row of the table is to be trained
Reason = Callable[[int, int], tuple[str, dict[str, Any]]]  # of training a row up to a step: sentence and numbers
Figures = Callable[[int], dict[str, Any]]  # that tell an alternative's worth


def advances(
    view: View, table: Table, rows: Sequence[int], goal: Goal, reason: Reason, figures: Figures | None = None
) -> list[Advance]:
    """Hand the first affordable rows to the free workers, and name the next ones as alternatives."""
    chosen: list[tuple[int, int]] = []
    left, place = view.gpu_hours_left, 0
    while place < len(rows) and len(chosen) < view.free_workers:
        row = int(rows[place])
        to_step = goal(row)
        if (granted := grant(table.trials[row], to_step, left)) is not None:
            chosen.append((row, to_step))
            left -= granted.gpu_hours
        place += 1
    if not chosen:
        return []
    alternatives = [
        _alternative(table.trials[row], goal(row)) | (figures(row) if figures else {})
        for row in map(int, rows[place : place + MOST_ALTERNATIVES])
    ]
    return [_advance(view, table.trials[row], to_step, reason(row, to_step), alternatives) for row, to_step in chosen]


def finishes(table: Table, goals: Iterable[tuple[int, int]]) -> list[Action]:
    """Close paused trials that stand at their goal, given as pairs of row and step."""
    return [
        Finish(
            trial.trial,
            Why(f"{named(trial)} has had the {goal:,} steps it was to get", {"step": trial.step, "goal": goal}),
        )
        for trial, goal in ((table.trials[row], goal) for row, goal in goals)
    ]


def at_end(table: Table, goal: Vector) -> list[Action]:
    """Close all paused trials that have reached their goals."""
    rows = np.flatnonzero(table["paused"] & (table["step"] >= goal))
    return finishes(table, ((int(row), int(goal[row])) for row in rows))


def nothing_left(view: View, table: Table, wanted: NDArray[np.bool_], done: str) -> list[Action]:
    """Stop when nothing is awaited and nothing can be started: for lack of money, or because all is done.

    `wanted` are the rows that the policy would train if it could, `done` what is so when there are none. Nothing is
    said while all workers are taken or away.
    """
    if table.waiting or view.free_workers < 1:
        return []
    seen: dict[str, Any] = {"gpu_hours_left": view.gpu_hours_left}
    if not wanted.any():
        return [Stop(Why(f"{done}; {hours(view.gpu_hours_left)} GPU-hours are left", seen))]
    rows = np.flatnonzero(wanted)
    prices = (table["start_up"] + table["per_step"])[rows]
    cheapest, price = table.trials[int(rows[np.argmin(prices)])], float(prices.min())
    reason = (
        f"the money is out: {hours(view.gpu_hours_left)} GPU-hours are left, and one more step of the cheapest trial, "
        f"{named(cheapest)}, would take {hours(price)} with its start-up, to which a margin is kept"
    )
    return [Stop(Why(reason, seen | {"least_price_gpu_hours": price, "cheapest_trial": cheapest.trial}))]


def named(trial: TrialView) -> str:
    """How a sentence calls a trial."""
    return named_configuration(trial.configuration)


def named_configuration(configuration: Configuration) -> str:
    """How a sentence calls a configuration."""
    n, B, axes = configuration
    return f"n={n}, B={B}" + (f", {said(axes)}" if axes else "")


def hours(gpu_hours: float) -> str:
    """GPU-hours for a sentence."""
    return f"{gpu_hours:,.3g}" if abs(gpu_hours) < 100 else f"{gpu_hours:,.0f}"


def _advance(
    view: View,
    trial: TrialView,
    to_step: int,
    reason: tuple[str, dict[str, Any]],
    alternatives: list[dict[str, Any]],
) -> Advance:
    sentence, numbers = reason
    price = trial.price(to_step)
    seen = {"step": trial.step, "price_gpu_hours": price, "gpu_hours_left": view.gpu_hours_left, **numbers}
    spent = f"for {hours(price)} of the {hours(view.gpu_hours_left)} GPU-hours left"
    moves = "starts, up to" if trial.step == 0 else f"goes on from step {trial.step:,} to"
    return Advance(
        trial.trial, to_step, Why(f"{named(trial)} {moves} step {to_step:,} {spent}: {sentence}", seen, alternatives)
    )


def _alternative(trial: TrialView, to_step: int) -> dict[str, Any]:
    return {
        "action": "advance",
        "trial": trial.trial,
        "name": trial.name,
        "to_step": to_step,
        "price_gpu_hours": trial.price(to_step),
    }
