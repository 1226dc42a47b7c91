"""The policy of a final run: on to where its GPU-hours end, segment by segment, or where nothing is left to win."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from planner.belief.forecasts import LEAST_CHANCE, RemainingGain, remaining_gain
from planner.belief.pool import DRAWS, Pool
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from planner.policy.actions import Action, Advance, Finish, Stop, Why
from planner.policy.table import next_boundary
from planner.view import FINAL_POLICY, ScorePoint, TrialState, TrialView, View, has_curve


class FinalPolicy:
    """Continues the one trial that there is; it saves and is scored after each segment."""

    name = FINAL_POLICY

    def __init__(self, left_of: Callable[[TrialView], RemainingGain | None] | None = None) -> None:
        """Go on to the end, or stop where more than 0.02 of score is no longer likely by what says what is left."""
        self._left_of = left_of

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        (trial,) = view.trials.values()
        if trial.state is TrialState.PAUSED and trial.step >= trial.most_steps:
            reason = f"the final run has made its {trial.most_steps:,} updates"
            return _over(trial, Why(reason, {"step": trial.step, "most_steps": trial.most_steps}), view)
        if not trial.ready:
            return []
        remaining = self._left_of(trial) if self._left_of is not None and trial.state is TrialState.PAUSED else None
        if remaining is not None and remaining.won:
            figures = {
                "step": trial.step,
                "share_left": remaining.share,
                "expected": remaining.expected,
                "chance": remaining.chance,
            }
            return _over(trial, Why(nothing_to_win(remaining), figures), view)
        to_step = next_boundary(trial)
        reason = f"the final run goes on from update {trial.step:,} of {trial.most_steps:,}, up to {to_step:,}"
        return [Advance(trial.trial, to_step, Why(reason, {"step": trial.step, "most_steps": trial.most_steps}))]


def _over(trial: TrialView, why: Why, view: View) -> list[Action]:
    figures = {"gpu_hours_left": view.gpu_hours_left}
    stop = Stop(Why("the final run is over", figures))  # what is left of the budget its ending says
    return [Finish(trial.trial, why), stop]


def end_of(trial: TrialView) -> float:
    """Return the GPU-hours of the whole run, by what was measured of it."""
    reached = trial.scores[-1].gpu_hours if trial.scores else 0.0
    at = trial.scores[-1].step if trial.scores else 0
    return reached + (trial.most_steps - at) * trial.compared_per_step


def left_by(pilots: View, pool: Pool, run: TrialView) -> RemainingGain | None:
    """Return what is left to win of a run, by all curves; None before its own can tell."""
    if not has_curve(run):
        return None
    view = replace(pilots, trials={**pilots.trials, run.trial: run})
    return remaining_gain(pool.joint_draws(view, DRAWS), run, end_of(run))


def nothing_to_win(remaining: RemainingGain) -> str:
    """Say that nothing is left to win, with the numbers that it rests on."""
    return (
        f"{percent(remaining.share)} of the GPU-hours are left; they are expected to bring {remaining.expected:.3f}, "
        f"and more than {EQUIVALENCE_MARGIN:g} with a probability of {remaining.chance:.2f}, below {LEAST_CHANCE:g}: "
        "nothing is left to win"
    )


LAST_MARGIN = 1.1  # on the price of the last segment: a final run has measured many of the kind
CLOSER = 2 / 3  # of the spacing between validations, that the last ones may have
MEASURED_INTERVALS = 5  # between validations, the newest, that price the further ones: lengths of responses drift


def measured_price(scores: Sequence[ScorePoint], spacing: int) -> float | None:
    """Return the GPU-hours of a step over the newest validations, theirs included; None before two.

    Those of a pilot that the run goes on from are closer together, and dearer for it: they do not count.
    """
    spaced = list(
        takewhile(lambda pair: 2 * (pair[1].step - pair[0].step) >= spacing, reversed(list(pairwise(scores))))
    )
    if not spaced:
        return None
    (_, newest), (oldest, _) = spaced[0], spaced[:MEASURED_INTERVALS][-1]
    return (newest.gpu_hours - oldest.gpu_hours) / (newest.step - oldest.step)


def paid_steps(trial: TrialView, gpu_hours: float, further_start_up: float, limit: int | None = None) -> int:
    """Return the update, one that is validated, up to which GPU-hours pay for a final run.

    Only the next segment may have to start its worker; each further one takes `further_start_up` beside its updates.
    """
    segment = trial.segment_steps
    first = segment - trial.step % segment
    further = further_start_up + segment * trial.gpu_hours_per_step
    next_one = trial.start_up_gpu_hours + first * trial.gpu_hours_per_step
    if LAST_MARGIN * next_one > gpu_hours:
        return trial.step
    # What the margins of all but the last segment hold comes back.
    segments = math.floor((gpu_hours - next_one) / further - (LAST_MARGIN - 1))
    paid = trial.step + first + max(0, segments) * segment
    return paid if limit is None or paid <= limit else max(trial.step, limit // segment * segment)


def last_spacing(trial: TrialView, gpu_hours: float, start_up: float) -> int:
    """Return the updates between the last validations of a run, so that the very last is made as the GPU-hours end.

    They are those that it has unless it is near its end, and a quarter of them is won, which takes more than twice the
    start-up that other ones need.
    """
    spacing, price = trial.segment_steps, trial.gpu_hours_per_step
    if trial.most_steps - trial.step > spacing:
        return spacing
    paid = trial.step + math.floor((gpu_hours - start_up) / price - (LAST_MARGIN - 1) * spacing)
    closer = min(range(math.ceil(CLOSER * spacing), spacing + 1), key=lambda steps: paid % steps)
    won = paid - paid % closer - max(trial.step, trial.most_steps)
    return closer if 4 * won > spacing and won * price > 2 * start_up else spacing
