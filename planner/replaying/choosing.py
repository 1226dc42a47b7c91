"""Which configuration would be taken now: the last word of a policy that itself only says what to train next."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from planner.curves.curve import Vector
from planner.pooling.pool import Pool
from planner.sweeping.chances import NEAR, choosable
from planner.view import Configuration, TrialView, View, has_curve

Chooser = Callable[[View], Configuration | None]  # None while nothing was seen that speaks for any

SMOOTHED: Final = 3  # last points of a trial that `highest_of_the_longest` takes together
LONG: Final = 0.5  # share of the steps of the trial that has come farthest


def highest_seen(view: View) -> Configuration | None:
    """Return the configuration of the trial with the highest last score, however far it was trained.

    This is what Ray Tune's `get_best_result` (scope "last") and Syne Tune's `best_config` answer with. The first of
    equals is taken.
    """
    return _highest((trial, trial.scores[-1].score) for trial in view.trials.values() if trial.scores)


def highest_of_the_longest(view: View) -> Configuration | None:
    """Return the configuration with the highest mean of the last three scores among trials that have come far.

    Far is half as far as the trial that has come farthest: scores after little training say little, and single
    scores are noisy. It does more for a policy than the tools that it comes from.
    """
    farthest = max((trial.step for trial in view.trials.values()), default=0)
    return _highest(
        (trial, float(np.mean([seen.score for seen in trial.scores[-SMOOTHED:]])))
        for trial in view.trials.values()
        if trial.scores and trial.step >= LONG * farthest
    )


class HighestExpected:
    """Chooses by the expected score at the target, given what all curves say together.

    Those whose every trial failed or was given up are left out; configurations without a curve can be chosen as well.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __call__(self, view: View) -> Configuration | None:
        """Return the choice; None while nothing was seen."""
        if not any(has_curve(trial) for trial in view.trials.values()):
            return highest_seen(view)
        configurations, scores = self._possible(view)
        return configurations[int(scores.mean(axis=0).argmax())]

    def within(self, view: View) -> float | None:
        """Return the probability that the choice is near the best; None while nothing was seen."""
        if not any(has_curve(trial) for trial in view.trials.values()):
            return None
        _, scores = self._possible(view)
        chosen = scores[:, int(scores.mean(axis=0).argmax())]
        return float((chosen >= scores.max(axis=1) - NEAR).mean())

    def _possible(self, view: View) -> tuple[list[Configuration], Vector]:
        worlds = self._pool.worlds(view)
        rows = choosable(view, worlds)
        return [worlds.configurations[row] for row in rows], worlds.at_target[:, rows]


def _highest(scored: Iterable[tuple[TrialView, float]]) -> Configuration | None:
    best = max(scored, key=lambda one: one[1], default=None)
    return None if best is None else best[0].configuration


def open_chooser(policy: str, pool: Pool) -> Chooser:
    """Return what a policy of that name chooses by: rlplan by what it believes, the others by what they have seen."""
    return HighestExpected(pool) if policy == "rlplan" else highest_seen
