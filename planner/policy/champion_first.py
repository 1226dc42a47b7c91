"""The policy `champion`: train the champion, look, try challengers where that pays, and say who goes on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.axes import named_configuration
from planner.percent import chance
from planner.policy.actions import Action, Propose, Prune, Stop, Why
from planner.policy.calibration import Calibration, calibration, read_curve
from planner.policy.champion import MOST_LOOK_SHARE
from planner.policy.gains import LEAST_SCORES, Gain, Standing
from planner.policy.grants import MARGIN, grant
from planner.policy.looks import Look, bar_of, cap_of, faults_of, next_look, step_at, unseen
from planner.policy.table import advance, hours
from planner.rules import LOOK_SHARE
from planner.view import Champion, Configuration, TrialState, TrialView, View, has_curve

MOST_START_UP_SHARE = 0.1  # of a segment's updates, beside a challenger
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
    champion = standing.champion
    able = [gain for gain in gains if gain.mean > 0 and gain.probability >= bar_of(standing, gain.trial.configuration)]
    failed = standing.trial.state is TrialState.FAILED
    best = max(able or gains, key=lambda gain: gain.mean if able or failed else gain.probability, default=None)
    if best is None:
        why = (
            "no challenger was worth a look"
            if not standing.alarm
            else f"its start {standing.alarm}, and none was tried"
        )
        return Verdict(champion, champion, False, None, None, None, None, why)
    challenger = best.trial.configuration
    name, bar = named_configuration(challenger), bar_of(standing, challenger)
    switched = bool(able) or failed
    likely = f"{chance(best.probability)} likely to gain more than its GPU-hours cost"
    why = f"{name} is {likely}" if switched else f"no challenger is likely enough to gain: {name} is {likely}"
    if not has_curve(best.trial):
        why += ", by its settings alone: the GPU-hours of challengers do not reach to a score of it"
    chosen = challenger if switched else champion
    return Verdict(chosen, champion, switched, challenger, best.probability, best.mean, bar, why)


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


class ChampionPolicy:
    """Trains the champion to its first look, then challengers one after the other while a look at one is worth it."""

    name = "champion"

    def __init__(self, fitted: Calibration | None = None) -> None:
        """Take a calibration; without one, that of all families."""
        self._fitted = fitted

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        assert view.champion is not None, "a sweep by this policy has a champion"
        if view.free_workers < 1 or any(trial.resting for trial in view.trials.values()):
            return []
        trial = champion_trial(view, view.champion)
        busy = any(other.state is TrialState.RUNNING for other in view.trials.values())
        if trial is None or (len(view.champion.candidates) > 1 and not has_raced(trial, view.champion)):
            return self._race(view, view.champion)
        if busy:
            return self._beside(view, trial)
        if (action := self._first_look(view, trial)) is not None:
            return [action]
        if not has_curve(trial):  # it failed before its first score, or the money does not reach to one
            name = named_configuration(trial.configuration)
            return [Stop(Why(f"{name}, the champion, has no score after its start and cannot be trained to one"))]
        standing = Standing(view, view.champion, trial, self._fitted or calibration())
        return self._challenge(standing)

    def _race(self, view: View, champion: Champion) -> list[Action]:
        """Train every candidate for the champion's place as far as its race goes."""
        actions: list[Action] = []
        money = view.gpu_hours_left
        for candidate in champion.candidates:
            trial = longest_of(view, candidate)
            if trial is None or not trial.ready or has_raced(trial, champion) or len(actions) == view.free_workers:
                continue
            to_step = step_at(trial, RACE_SHARE * champion.total_gpu_hours)
            if (granted := grant(trial, to_step, money)) is not None:
                money -= granted.gpu_hours
                reason = f"the best of {len(champion.candidates)} candidates becomes the champion"
                actions.append(advance(view, trial, granted.to_step, reason, {}, []))
        return actions

    def _first_look(self, view: View, trial: TrialView) -> Action | None:
        """Train the champion to its first look; farther where that holds too few scores."""
        assert view.champion is not None, "it was asked for before"
        look = LOOK_SHARE * view.champion.total_gpu_hours
        reached = trial.step * trial.compared_per_step
        scores = sum(point.gpu_hours > 0 for point in trial.scores)
        goal = step_at(trial, look if scores >= LEAST_SCORES or reached < look * (1 - 1e-9) else 2 * look)
        if scores < 1 and trial.step >= goal:
            goal = trial.step + trial.segment_steps
        if trial.step >= min(goal, trial.most_steps) or not trial.ready:
            return None
        granted = grant(trial, goal, view.gpu_hours_left)
        if granted is None:
            return None
        return advance(view, trial, granted.to_step, "it is the champion, whose own start is its pilot", {}, [])

    def _beside(self, view: View, trial: TrialView) -> list[Action]:
        """Let the champion go on while others run, if its start is well: its hours are those of the final run."""
        assert view.champion is not None, "it was asked for before"
        if Standing(view, view.champion, trial, self._fitted or calibration()).alarm:
            return []
        goal = step_at(trial, MOST_LOOK_SHARE * view.champion.total_gpu_hours)
        # One whose process starts anew for each segment has few of them.
        updates = math.ceil(trial.start_up_gpu_hours / (MOST_START_UP_SHARE * trial.gpu_hours_per_step))
        segments = max(1, math.ceil(updates / trial.segment_steps))
        to_step = min(goal, trial.step + segments * trial.segment_steps)
        granted = grant(trial, to_step, view.gpu_hours_left) if trial.ready else None
        if granted is None or trial.step >= goal:
            return []
        return [advance(view, trial, granted.to_step, "the champion goes on while a challenger runs", {}, [])]

    def _challenge(self, standing: Standing) -> list[Action]:
        """Look at the challenger that is worth most, or stop and give up those that have lost."""
        view, look = standing.view, next_look(standing)
        if look is not None:
            if (behind := self._follow(standing, look)) is not None:
                return [behind]
            if (action := self._look(standing, look)) is not None:
                return [action]
        decided = verdict(view, standing.terms, standing.calibration)
        figures: dict[str, Any] = {
            "alarm": standing.alarm,
            "challenger_gpu_hours": standing.challenger_gpu_hours,
            "challenger_cap_gpu_hours": cap_of(standing),
            "switched": decided.switched,
            "probability": decided.probability,
            "gain": decided.gain,
            "bar": decided.bar,
        }
        lost = [
            trial
            for trial in view.trials.values()
            if trial.state is TrialState.PAUSED and trial.configuration != decided.configuration
        ]
        name = named_configuration(decided.configuration)
        return [
            *(Prune(trial.trial, Why(f"{name} goes on to the end: {decided.why}", figures)) for trial in lost),
            Stop(Why(f"{name} goes on to the end with all GPU-hours that are left: {decided.why}", figures)),
        ]

    def _follow(self, standing: Standing, look: Look) -> Action | None:
        """Train the champion as far as a longer look at a challenger goes, so that both can be compared."""
        trial, view = standing.trial, standing.view
        if look.trial is None:
            return None
        reach = look.step * look.trial.compared_per_step
        goal = step_at(trial, reach)
        if not trial.ready or trial.step >= min(goal, trial.most_steps):
            return None
        granted = grant(trial, goal, view.gpu_hours_left)
        if granted is None:
            return None
        reason = f"{named_configuration(look.configuration)} is to be compared with it at {hours(reach)}"
        return advance(view, trial, granted.to_step, f"{reason} GPU-hours", {}, [])

    def _look(self, standing: Standing, look: Look) -> Action | None:
        """Start or go on with a challenger; one that has no trial is planned first."""
        view = standing.view
        alarm = f"the champion {standing.alarm}" if standing.alarm else "the champion's start is well"
        cause = faults_of(standing).get(look.configuration) or f"a look at it is worth {look.value:.4f} of score"
        reason = f"{alarm}; {cause}"
        figures = {
            "value": look.value,
            "bar": bar_of(standing, look.configuration),
            "challenger_gpu_hours": standing.challenger_gpu_hours,
            "challenger_cap_gpu_hours": cap_of(standing),
        }
        if look.trial is None:
            if MARGIN * look.price > view.gpu_hours_left:
                return None
            n, B, axes = look.configuration
            sentence = f"{named_configuration(look.configuration)} is a challenger: {reason}"
            return Propose(n, B, Why(sentence, figures), axes)
        granted = grant(look.trial, look.step, view.gpu_hours_left)
        if granted is None:
            return None
        return advance(view, look.trial, granted.to_step, reason, figures, [])
