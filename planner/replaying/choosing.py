"""Which configuration would be taken now: the last word of a policy that itself only says what to train next."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from planner.pooling.pool import Pool
from planner.replaying.recorded import AROUND, ROUNDING
from planner.sweeping.chances import NEAR, choosable
from planner.view import Configuration, TrialView, View, by_configuration, has_curve

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
    Runs that have come to the target and lie within 0.02 of the best expectation are told apart by what they score
    there: expectations are off by as much, and a run that has ended is what it is.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __call__(self, view: View) -> Configuration | None:
        """Return the choice; None while nothing was seen."""
        if not any(has_curve(trial) for trial in view.trials.values()):
            return highest_seen(view)
        worlds = self._pool.worlds(view)
        rows = choosable(view, worlds)
        configurations: list[Configuration] = [worlds.configurations[row] for row in rows]
        expected = worlds.at_target[:, rows].mean(axis=0)
        leader = int(expected.argmax())
        runs = by_configuration(view.trials.values())
        alike = np.flatnonzero(expected >= expected[leader] - NEAR).tolist()
        levels = ((place, _at_target(runs.get(configurations[place], ()), view)) for place in alike)
        ended = {place: level for place, level in levels if level is not None}
        return configurations[max(ended, key=ended.__getitem__) if leader in ended else leader]


def _at_target(trials: Iterable[TrialView], view: View) -> float | None:
    """Return the mean score in the last tenth before the target over the runs that have come there; None of none."""
    least = (1 - AROUND) * view.target_gpu_hours * (1 - ROUNDING)
    levels = [
        np.mean([seen.score for seen in trial.scores if seen.gpu_hours >= least])
        for trial in trials
        if trial.scores and trial.scores[-1].gpu_hours >= least
    ]
    return float(np.mean(levels)) if levels else None


def _highest(scored: Iterable[tuple[TrialView, float]]) -> Configuration | None:
    best = max(scored, key=lambda one: one[1], default=None)
    return None if best is None else best[0].configuration


def open_chooser(policy: str, pool: Pool) -> Chooser:
    """Return what a policy of that name chooses by: rlplan by what it believes, the others by what they have seen."""
    return HighestExpected(pool) if policy == "rlplan" else highest_seen
