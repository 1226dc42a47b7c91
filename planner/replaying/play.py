"""Plays a policy over recorded runs in simulated time, as a sweep with so many workers would have gone."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from budgets.errors import InputError
from planner.replaying.choosing import Chooser
from planner.replaying.game import Game, Pilots
from planner.replaying.recorded import Recorded
from planner.sweeping.actions import Policy
from planner.view import Configuration, PlanPrior

MOST_MARKS: Final = 40


@dataclass(frozen=True, slots=True)
class ChoiceMark:
    """What would have been chosen after so many GPU-hours, and how far it falls short of the best."""

    gpu_hours: float
    chosen: Configuration
    regret: float


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a policy: its choice, what that is worth at the target, and what it took."""

    policy: str
    chosen: Configuration
    guessed: bool  # nothing was seen that speaks for any: the first in the order of this seed was taken
    gpu_hours_spent: float
    score_at_target: float
    best_at_target: float
    regret: float
    final_gpu_hours: float  # of its final run: more than the target where unspent money and its own pilot lengthen it
    trace: tuple[ChoiceMark, ...] = field(repr=False)  # where the choice changed
    decisions: int  # actions of the policy that were carried out
    wall_hours: float


def play(
    recorded: Recorded,
    policy: Policy,
    *,
    budget: float,
    target: float,
    seed: int,
    workers: int = 1,
    chooser: Chooser,
    trace: bool = True,
    pilots: Pilots | None = None,
    idle_gpu_hours: float = 0.0,
    plan_prior: PlanPrior | None = None,
    rest_to_final: bool = False,
    continues_pilot: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Played:
    """Play a policy to its end, or to the end of the budget; equal arguments give equal results.

    Every run is a trial that waits to be started. The policy sees a point once its trial was trained past it, in a
    segment that has ended.

    Args:
        recorded: the runs.
        policy: a new one; a policy remembers what it has seen.
        budget: GPU-hours for all trials together.
        target: GPU-hours of the final run, where configurations are compared.
        seed: of the order of the trials, and of the policy.
        workers: segments that run at once; a GPU-hour takes one of them an hour.
        chooser: says which configuration would be taken.
        trace: whether to ask that in between, at most forty times.
        pilots: what a plan grants each configuration; else every run may be trained to the target, without start-ups.
        idle_gpu_hours: what is set aside for workers that wait.
        plan_prior: what that plan expected before any pilot.
        rest_to_final: whether what is left of the budget lengthens the final run, so that a policy may leave some.
        continues_pilot: whether the final run goes on from the pilot of what is chosen, and is so much longer.
        progress: told the GPU-hours that are spent, after each event.
    """
    for name, value in (("budget", budget), ("target", target), ("workers", workers)):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} {value}: it must be a positive number")
    game = Game(
        recorded,
        budget=budget,
        target=target,
        seed=seed,
        workers=workers,
        pilots=pilots,
        idle_gpu_hours=idle_gpu_hours,
        plan_prior=plan_prior,
        rest_to_final=rest_to_final,
        continues_pilot=continues_pilot,
    )
    truth = recorded.truth(target)
    best = max(truth.values())
    marks: list[ChoiceMark] = []
    next_mark = 0.0
    for view in game.views(policy):
        if progress is not None:
            progress(game.spent)
        if trace and game.spent >= next_mark and game.spent > 0:
            next_mark = game.spent + budget / MOST_MARKS
            chosen = chooser(view)
            if chosen is not None and (not marks or chosen != marks[-1].chosen):
                marks.append(ChoiceMark(game.spent, chosen, best - truth[chosen]))
    view = game.view()
    last = chooser(view)
    chosen = game.first if last is None else last
    regret = best - truth[chosen]
    if trace and (not marks or marks[-1].chosen != chosen):
        marks.append(ChoiceMark(game.spent, chosen, regret))
    return Played(
        policy=policy.name,
        chosen=chosen,
        guessed=last is None,
        gpu_hours_spent=game.spent,
        score_at_target=truth[chosen],
        best_at_target=best,
        regret=regret,
        final_gpu_hours=view.final_run(chosen),
        trace=tuple(marks),
        decisions=game.decisions,
        wall_hours=game.wall_hours,
    )
