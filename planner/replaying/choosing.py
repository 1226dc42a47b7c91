"""Which configuration would be taken now: the last word of a policy that itself only says what to train next."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from planner.pooling.pool import Pool
from planner.recommending.choosing import by_worth
from planner.recommending.evidence import facts_in
from planner.recommending.prospect import DRAWS, Prospect
from planner.view import Configuration, TrialView, View, has_curve

Chooser = Callable[[View], Configuration | None]  # None while nothing was seen that speaks for any

SMOOTHED: Final = 3  # last points of a trial that `highest_of_the_longest` takes together
LONG: Final = 0.5  # share of the steps of the trial that has come farthest


def highest_last_score(view: View) -> Configuration | None:
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
        (trial, float(np.mean([point.score for point in trial.scores[-SMOOTHED:]])))
        for trial in view.trials.values()
        if trial.scores and trial.step >= LONG * farthest
    )


def highest_expected(pool: Pool) -> Chooser:
    """Return what a sweep recommends by: the worth at the target, given what all curves say together.

    Configurations without a curve can be chosen as well; the highest last score decides while nothing has a curve.
    """

    def chosen(view: View) -> Configuration | None:
        if not any(has_curve(trial) for trial in view.trials.values()):
            return highest_last_score(view)
        joint = pool.joint_draws(view, DRAWS)
        final, paid = view.final_gpu_hours, view.continues_pilot
        prospect = Prospect.of(joint, facts_in(view), final, octaves=(0, 0), paid=paid)
        order = by_worth(prospect, prospect.rung(0))
        return prospect.configurations[order[0]] if order else highest_last_score(view)

    return chosen


def _highest(scored: Iterable[tuple[TrialView, float]]) -> Configuration | None:
    best = max(scored, key=lambda one: one[1], default=None)
    return None if best is None else best[0].configuration


def open_chooser(policy: str, pool: Pool) -> Chooser:
    """Return what a policy of that name chooses by: rlplan by what it believes, the others by what they have seen."""
    return highest_expected(pool) if policy == "rlplan" else highest_last_score
