"""The policy `champion`: it trains the champion, looks, tries challengers where that pays, and says who goes on."""

from collections.abc import Sequence
from typing import Any

from planner.axes import named_configuration
from planner.champion.calibration import Calibration, calibration
from planner.champion.looking import Look, bar_of, cap_of, faults_of, next_look, step_at
from planner.champion.standing import LEAST_SCORES, Standing
from planner.champion.terms import MOST_LOOK_SHARE
from planner.champion.verdict import RACE_SHARE, champion_trial, has_raced, longest_of, verdict
from planner.rules import LOOK_SHARE
from planner.sweeping.actions import Action, Propose, Prune, Stop, Why
from planner.sweeping.grants import MARGIN, grant
from planner.sweeping.table import advance, hours
from planner.trials import TrialState
from planner.view import Champion, TrialView, View, has_curve


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
            named = named_configuration(trial.configuration)
            return [Stop(Why(f"{named}, the champion, has no score after its start and cannot be trained to one"))]
        standing = Standing(view, view.champion, trial, self._fitted or calibration())
        return self._challenge(standing)

    def _race(self, view: View, champion: Champion) -> list[Action]:
        """Train every candidate for the champion's place as far as its race goes."""
        actions: list[Action] = []
        left = view.gpu_hours_left
        for candidate in champion.candidates:
            trial = longest_of(view, candidate)
            if trial is None or not trial.ready or has_raced(trial, champion) or len(actions) == view.free_workers:
                continue
            to_step = step_at(trial, RACE_SHARE * champion.total_gpu_hours)
            if (granted := grant(trial, to_step, left)) is not None:
                left -= granted.gpu_hours
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
        granted = (
            grant(trial, min(goal, trial.step + trial.segment_steps), view.gpu_hours_left) if trial.ready else None
        )
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
        named = named_configuration(decided.configuration)
        return [
            *(Prune(trial.trial, Why(f"{named} goes on to the end: {decided.why}", figures)) for trial in lost),
            Stop(Why(f"{named} goes on to the end with all GPU-hours that are left: {decided.why}", figures)),
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
