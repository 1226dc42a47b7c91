"""Plays our policies over a table, and the published rules as rlplan implements them."""

import time
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np

from planner.belief.pool import Pool
from planner.policy.actions import Policy
from planner.policy.policies import open_policy
from planner.replay.play import Chooser, highest_last_score, open_chooser, play
from planner.replay.recorded import Recorded
from planner.view import Configuration, View

RLPLAN: Final = "rlplan"
SMOOTHED: Final = 3  # last points of a trial that `highest_of_the_longest` takes together
LONG: Final = 0.5  # share of the steps of the trial that has come farthest
ONE_RULE: Final = "own"
OWN_PEERS: Final = ("asha", "hyperband", "median", "random", "full")


def highest_of_the_longest(view: View) -> Configuration | None:
    """Return the configuration with the highest mean of the last three scores among trials that have come far.

    Far is half as far as the trial that has come farthest: scores after little training say little, and single
    scores are noisy. It does more for a policy than the tools that it comes from.
    """
    farthest = max((trial.step for trial in view.trials.values()), default=0)
    scored = [
        (float(np.mean([point.score for point in trial.scores[-SMOOTHED:]])), trial.configuration)
        for trial in view.trials.values()
        if trial.scores and trial.step >= LONG * farthest
    ]
    return max(scored, key=itemgetter(0))[1] if scored else None


RULES: Final[dict[str, Chooser]] = {"last": highest_last_score, "long": highest_of_the_longest}


@dataclass(frozen=True)
class Answer:
    """What a policy chose, and its seconds."""

    chosen: Configuration
    seconds: float


def whole_score(recorded: Recorded, *, budget: float, target: float, seed: int, workers: int) -> float:
    """Return what a final run scores after the grid was explored, with all of its money and its pilot's GPU-hours."""
    policy, chooser = opened(RLPLAN)
    chosen, view = seen_to_the_end(
        policy, chooser, recorded, budget=budget, target=target, seed=seed, workers=workers, rest_to_final=True
    )
    return recorded.truth(view.final_run(chosen))[chosen]


@dataclass
class _Kept:
    """A chooser that remembers what it was asked last, so that other rules can be asked about the same."""

    chooser: Chooser
    view: View | None = None

    def __call__(self, view: View) -> Configuration | None:
        self.view = view
        return self.chooser(view)


def opened(name: str) -> tuple[Policy, Chooser]:
    """Return a policy with what it chooses by."""
    pool = Pool()
    return open_policy(name, search=None, pool=pool), open_chooser(name, pool)


def answers(
    name: str,
    recorded: Recorded,
    *,
    budget: float,
    target: float,
    seed: int,
    workers: int,
) -> dict[str, Answer]:
    """Return the answer of a policy by each rule of choice; rlplan has its own alone."""
    policy, chooser = opened(name)
    began = time.process_time()
    chosen_last, view = seen_to_the_end(
        policy, chooser, recorded, budget=budget, target=target, seed=seed, workers=workers
    )
    seconds = time.process_time() - began
    if name == RLPLAN:
        return {ONE_RULE: Answer(chosen_last, seconds)}
    chosen = {rule: of(view) or chosen_last for rule, of in RULES.items()}
    return {rule: Answer(one, seconds) for rule, one in chosen.items()}


def seen_to_the_end(
    policy: Policy,
    chooser: Chooser,
    recorded: Recorded,
    *,
    budget: float,
    target: float,
    seed: int,
    workers: int,
    rest_to_final: bool = False,
) -> tuple[Configuration, View]:
    """Play to the end, and return what is chosen then and the view that other rules can be asked about."""
    kept = _Kept(chooser)
    played = play(
        recorded,
        policy,
        budget=budget,
        target=target,
        seed=seed,
        workers=workers,
        chooser=kept,
        trace=False,
        rest_to_final=rest_to_final,
        continues_pilot=rest_to_final,
    )
    assert kept.view is not None
    return played.chosen, kept.view
