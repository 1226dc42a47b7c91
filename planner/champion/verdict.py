"""Who goes on to the end: the champion, or a challenger that is likely to gain what its hours have cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.axes import named_configuration
from planner.champion.calibration import Calibration, calibration
from planner.champion.looking import bar_of, unseen
from planner.champion.reading import read_curve
from planner.champion.standing import Gain, Standing
from planner.percent import chance
from planner.trials import TrialState
from planner.view import Champion, Configuration, TrialView, View, has_curve

RACE_SHARE = 0.02  # of all GPU-hours, for each of several candidates (base models' order is known by then)
NEARLY = 0.9  # of the race's length: scores lie where they lie


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes the final run, and how likely a challenger was to end above the champion."""

    configuration: Configuration
    champion: Configuration
    switched: bool
    challenger: Configuration | None  # the likeliest to gain, where one was looked at
    probability: float | None  # that it ends above the champion, with the GPU-hours that each would have
    gain: float | None  # expected of it
    bar: float | None  # the probability from which it takes the champion's place
    why: str  # in a sentence


def verdict(view: View, terms: Champion | None = None, fitted: Calibration | None = None) -> Verdict:
    """Return who goes on by what a view shows; the view, or who asks, has a champion."""
    champion = terms or view.champion
    assert champion is not None, "a view without a champion has no verdict"
    trial = champion_trial(view, champion)
    if trial is None or not has_curve(trial):
        chosen = champion.candidates[0] if trial is None else trial.configuration
        return Verdict(chosen, chosen, False, None, None, None, None, "the champion has no score after its start yet")
    standing = Standing(view, champion, trial, fitted or calibration())
    able = [challenger for challenger in standing.challengers if challenger.state not in LOST]
    gains = [standing.gain(challenger) for challenger in (*able, *unseen(standing))]
    return _of_gains(standing, gains)


LOST = frozenset({TrialState.FAILED, TrialState.LOST})


def _of_gains(standing: Standing, gains: Sequence[Gain]) -> Verdict:
    own = standing.champion
    able = [gain for gain in gains if gain.mean > 0 and gain.probability >= bar_of(standing, gain.trial.configuration)]
    failed = standing.trial.state is TrialState.FAILED
    best = max(able or gains, key=lambda gain: gain.mean if able or failed else gain.probability, default=None)
    if best is None:
        why = (
            "no challenger was worth a look"
            if not standing.alarm
            else f"its start {standing.alarm}, and none was tried"
        )
        return Verdict(own, own, False, None, None, None, None, why)
    challenger = best.trial.configuration
    name, bar = named_configuration(challenger), bar_of(standing, challenger)
    switched = bool(able) or failed
    likely = f"{chance(best.probability)} likely to gain more than its GPU-hours cost"
    why = f"{name} is {likely}" if switched else f"no challenger is likely enough to gain: {name} is {likely}"
    if not has_curve(best.trial):
        why += ", by its settings alone: the GPU-hours of challengers do not reach to a score of it"
    chosen = challenger if switched else own
    return Verdict(chosen, own, switched, challenger, best.probability, best.mean, bar, why)


def champion_trial(view: View, champion: Champion) -> TrialView | None:
    """Return the champion's longest trial; of several candidates the one that leads after all have raced."""
    runs = [longest_of(view, candidate) for candidate in champion.candidates]
    racing = [trial for trial in runs if trial is not None]
    if len(racing) <= 1:
        return racing[0] if racing else None
    if any(not has_raced(trial, champion) for trial in racing):
        return None
    alive = [trial for trial in racing if has_curve(trial) and trial.state is not TrialState.FAILED]
    if not alive:
        return racing[0]
    reached = min(trial.scores[-1].gpu_hours for trial in alive)
    return max(alive, key=lambda trial: _level(trial, reached))


def _level(trial: TrialView, gpu_hours: float) -> float:
    upto = [point for point in trial.scores if point.gpu_hours <= gpu_hours * (1 + 1e-9)]
    return read_curve(upto if len(upto) > 1 else trial.scores[:2], gpu_hours).level


def longest_of(view: View, configuration: Configuration) -> TrialView | None:
    """Return the longest trial of a configuration."""
    trials = [trial for trial in view.trials.values() if trial.configuration == configuration]
    return max(trials, key=lambda trial: (trial.step, -trial.trial), default=None)


def has_raced(trial: TrialView, champion: Champion) -> bool:
    """Say whether a candidate has run its race, or cannot."""
    if trial.state is TrialState.FAILED or trial.step >= trial.most_steps:
        return True
    length = NEARLY * RACE_SHARE * champion.total_gpu_hours
    return has_curve(trial) and trial.step * trial.compared_per_step >= length
