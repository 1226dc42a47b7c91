"""From what a sweep has seen to what the recommendation rests on: the joint belief, and the facts beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.curves.verdicts import State
from planner.pooling.opening import joint_of
from planner.recommending.facts import ConfigurationFacts
from planner.recommending.noise import level
from planner.recommending.status import PROPOSED, status_of
from planner.sweeping.beliefs import states_of
from planner.sweeping.joint import Joint
from planner.trials import TrialState
from planner.view import Configuration, TrialView, View, has_curve

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Planned:
    """What a run of a configuration would be, its price measured or as planned."""

    learning_rate: float
    recipe: str
    gpu_hours_per_step: float


def joint_for(view: View, draws: int = DRAWS) -> Joint:
    """Return the joint belief about every configuration of a view, those without a curve too."""
    return joint_of(view, draws)


def facts_of(view: View, planned: Mapping[Configuration, Planned]) -> dict[Configuration, ConfigurationFacts]:
    """Return what is known of each planned configuration, from its trials where it has any."""
    runs: dict[Configuration, list[TrialView]] = {each: [] for each in planned}
    for trial in view.trials.values():
        runs.setdefault(trial.configuration, []).append(trial)
    seen = [trial for trial in view.trials.values() if has_curve(trial)]
    states = {trial.trial: state for trial, state in zip(seen, states_of(seen), strict=True)}
    return {each: _facts(planned[each], trials, states) for each, trials in runs.items()}


def _facts(planned: Planned, trials: Sequence[TrialView], states: Mapping[int, State]) -> ConfigurationFacts:
    seen = [trial for trial in trials if trial.trial in states]
    judged = [states[trial.trial] for trial in seen]
    longest = max(seen, key=lambda trial: trial.scores[-1].gpu_hours, default=None)
    measured = [trial.gpu_hours_per_step for trial in trials if trial.step]
    return ConfigurationFacts(
        learning_rate=planned.learning_rate,
        recipe=planned.recipe,
        gpu_hours_per_step=float(np.mean(measured)) if measured else planned.gpu_hours_per_step,
        status=status_of(trials) if trials else PROPOSED,
        gpu_hours_spent=float(sum(trial.gpu_hours_spent for trial in trials)),
        reached_gpu_hours=longest.scores[-1].gpu_hours if longest else 0.0,
        reached_step=longest.step if longest else 0,
        last_score=level(longest.scores) if longest else None,
        seeds_seen=len(seen),
        collapsed_runs=sum(each.collapsed for each in judged),
        declining_runs=sum(each.fallen() and not each.collapsed for each in judged),
        failed=bool(trials) and all(trial.state is TrialState.FAILED for trial in trials),
    )
