"""From what a sweep has seen to facts: what the runs of each configuration have shown, and how far its seeds differ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.curves.curve import pass_rate_variance
from planner.curves.verdicts import State
from planner.metrics import SEED_SD
from planner.recommending.facts import LAST_PART, ConfigurationFacts, Facts
from planner.sweeping.beliefs import states_of
from planner.trials import TrialState
from planner.view import Configuration, ScorePoint, TrialView, View, by_configuration, has_curve

PROPOSED = "proposed"  # the status of a configuration that has no trial

# The order in which the states of several seeds speak for their cell.
STATUS = (
    TrialState.RUNNING,
    TrialState.PAUSED,
    TrialState.FINISHED,
    TrialState.PLANNED,
    TrialState.FAILED,
    TrialState.LOST,
    TrialState.PRUNED,
)


def facts_of(view: View, planned: Facts) -> dict[Configuration, ConfigurationFacts]:
    """Return what is known of each planned configuration, with what its trials have shown where it has any."""
    runs = by_configuration(view.trials.values())
    with_curve = [trial for trial in view.trials.values() if has_curve(trial)]
    states = {trial.trial: state for trial, state in zip(with_curve, states_of(with_curve), strict=True)}
    return {each: _facts(terms, runs.get(each, ()), states) for each, terms in planned.items()}


def facts_in(view: View) -> dict[Configuration, ConfigurationFacts]:
    """Return what a view says of its configurations, without learning rates and recipes, on which no choice rests."""
    prices = {each: cell.compared_per_step for each, cell in view.open_cells.items()}
    prices |= {trial.configuration: trial.compared_per_step for trial in view.trials.values()}
    return facts_of(view, {each: ConfigurationFacts(0.0, "", price) for each, price in prices.items()})


def _facts(planned: ConfigurationFacts, trials: Sequence[TrialView], states: Mapping[int, State]) -> ConfigurationFacts:
    with_curve = [trial for trial in trials if trial.trial in states]
    judged = [states[trial.trial] for trial in with_curve]
    measured = [trial.compared_per_step for trial in trials if trial.step]
    whole = [trial for trial in with_curve if trial.state is not TrialState.FAILED]
    longest = max(whole, key=lambda trial: trial.step, default=None)
    states_of_trials = {trial.state for trial in trials}
    scores = () if longest is None else longest.scores
    begins = (1 - LAST_PART) * scores[-1].gpu_hours if scores else 0.0
    last_part = ((point.gpu_hours, min(1.0, max(0.0, point.score))) for point in scores if point.gpu_hours >= begins)
    return replace(
        planned,
        gpu_hours_per_step=float(np.mean(measured)) if measured else planned.gpu_hours_per_step,
        status=next((str(state) for state in STATUS if state in states_of_trials), PROPOSED),
        gpu_hours_spent=float(sum(trial.gpu_hours_spent for trial in trials)),
        # A base model that was scored takes time too, and is no sign of what training does.
        reached_gpu_hours=max(
            (trial.scores[-1].gpu_hours for trial in with_curve if trial.scores[-1].step), default=0.0
        ),
        seeds_seen=len(with_curve),
        end=tuple(last_part),
        collapsed_runs=sum(each.collapsed for each in judged),
        declining_runs=sum(each.fallen() and not each.collapsed for each in judged),
        failed=bool(trials) and all(trial.state is TrialState.FAILED for trial in trials),
    )


PRIOR_DEGREES = 4.0  # how many differences between seeds that counts as
LAST = 3  # scores that are averaged, since one validation has noise of its own


def seed_sd(trials: Iterable[TrialView]) -> float:
    """Return the standard deviation between seeds, in √(p(1 − p)), from configurations of which several were seen.

    Runs are compared at the last compute that all of a configuration have reached. The published figure counts as a
    few degrees of freedom, and is the answer where there are no repeated runs.
    """
    trained = (trial for trial in trials if trial.scores and trial.scores[-1].gpu_hours > 0)
    degrees, squares = PRIOR_DEGREES, PRIOR_DEGREES * SEED_SD**2
    for repeated in by_configuration(trained).values():
        if len(repeated) > 1:
            common = min(trial.scores[-1].gpu_hours for trial in repeated)
            levels = [level(trial.scores, common) for trial in repeated]
            degrees += len(levels) - 1
            squares += float(np.var(levels) / pass_rate_variance(float(np.mean(levels)))) * len(levels)
    return float(np.sqrt(squares / degrees))


def level(scores: Sequence[ScorePoint], gpu_hours: float) -> float:
    """Return the mean of a run's last few scores up to a compute."""
    known = [point.score for point in scores if point.gpu_hours <= gpu_hours] or [scores[0].score]
    return float(np.mean(known[-LAST:]))
