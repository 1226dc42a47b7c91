"""Which configuration would be taken now: the last word of a policy that itself only says what to train next."""

from collections.abc import Callable

from planner.pooling.pool import Pool
from planner.recommending.choosing import by_worth
from planner.recommending.evidence import facts_in
from planner.recommending.prospect import DRAWS, Prospect
from planner.view import Configuration, View, has_curve

Chooser = Callable[[View], Configuration | None]  # None while nothing was seen that speaks for any


def highest_last_score(view: View) -> Configuration | None:
    """Return the configuration of the trial with the highest last score, however far it was trained.

    This is what Ray Tune's `get_best_result` (scope "last") and Syne Tune's `best_config` answer with. The first of
    equals is taken.
    """
    scored = [trial for trial in view.trials.values() if trial.scores]
    return max(scored, key=lambda trial: trial.scores[-1].score).configuration if scored else None


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


def open_chooser(policy: str, pool: Pool) -> Chooser:
    """Return what a policy of that name chooses by: rlplan by what it believes, the others by what they have seen."""
    return highest_expected(pool) if policy == "rlplan" else highest_last_score
