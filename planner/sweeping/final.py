"""The policy of a final run: on to where its GPU-hours end, segment by segment, or where nothing is left to win."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from planner.pooling.pool import DRAWS, Pool
from planner.sweeping.actions import Action, Advance, Finish, Stop, Why
from planner.sweeping.table import next_boundary
from planner.trials import TrialState
from planner.view import FINAL_POLICY, TrialView, View, has_curve
from planner.watching.left import LEAST_CHANCE, RemainingGain, remaining_gain


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
        left = self._left_of(trial) if self._left_of is not None and trial.state is TrialState.PAUSED else None
        if left is not None and left.won:
            figures = {"step": trial.step, "share_left": left.share, "expected": left.expected, "chance": left.chance}
            return _over(trial, Why(nothing_to_win(left), figures), view)
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


def left_by(known: View, pool: Pool, run: TrialView) -> RemainingGain | None:
    """Return what is left to win of a run, by all curves; None before its own can tell."""
    if not has_curve(run):
        return None
    view = replace(known, trials={**known.trials, run.trial: run})
    return remaining_gain(pool.joint_draws(view, DRAWS), run, end_of(run))


def nothing_to_win(left: RemainingGain) -> str:
    """Say that nothing is left to win, with the numbers that it rests on."""
    return (
        f"{percent(left.share)} of the GPU-hours are left; they are expected to bring {left.expected:.3f}, and more "
        f"than {EQUIVALENCE_MARGIN:g} with a probability of {left.chance:.2f}, below {LEAST_CHANCE:g}: nothing is "
        "left to win"
    )
