"""Which configuration would be taken now: the last word of a policy that itself only says what to train next."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from planner.sweeping.beliefs import Beliefs
from planner.sweeping.view import Configuration, TrialView, View
from planner.trials import TrialState

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


def highest_expected(beliefs: Beliefs) -> Chooser:
    """Return a chooser by the expected score at the target, given what is believed of each curve by itself.

    Configurations that still compete come before those that were given up; of several seeds the mean counts.
    """

    def choose(view: View) -> Configuration | None:
        standing = beliefs.standing(view)
        means: dict[Configuration, list[float]] = {}
        for competing in (True, False):
            for row in np.flatnonzero(standing.competes if competing else standing.seen):
                trial = standing.table.trials[row]
                if competing or trial.state is not TrialState.FAILED:
                    means.setdefault(trial.configuration, []).append(float(standing.mean[row]))
            if means:
                return max(means, key=lambda configuration: float(np.mean(means[configuration])))
        return highest_seen(view)

    return choose


def _highest(scored: Iterable[tuple[TrialView, float]]) -> Configuration | None:
    best = max(scored, key=lambda one: one[1], default=None)
    return None if best is None else best[0].configuration


def open_chooser(policy: str, beliefs: Beliefs) -> Chooser:
    """Return what a policy of that name chooses by: rlplan by what it believes, the others by what they have seen."""
    return highest_expected(beliefs) if policy == "rlplan" else highest_seen
