"""What the joint model says of every trial: its score at the target, its verdict, and its configuration's sigmoid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.curves.curve import Curve, Vector
from planner.curves.preparation import prepare
from planner.curves.verdicts import State, before_collapse, judge, states
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_ENDS, Interval
from planner.pooling.draws import JointDraws, shares_of_best
from planner.sweeping.chances import OUT
from planner.view import TrialView


@dataclass(frozen=True)
class TrialBelief:
    """What is believed of one trial; its score is the mean at the target, and intervals are of 90 %.

    `parameters` are those of its configuration's sigmoid, and `probability_best` is its configuration's, among all that
    have a trial or are open; it is 0 for a trial that is out of the competition.
    """

    verdict: str
    score: Interval
    probability_best: float
    parameters: dict[str, Interval]
    upto_gpu_hours: float


def beliefs_of(joint: JointDraws, trials: Sequence[TrialView]) -> dict[int, TrialBelief]:
    """Return the belief about each of these trials, all of which have a curve, by its id."""
    best, (places, runs) = shares_of_best(joint.at_target), joint.rows_of(trials)
    scores = scores_at_target(joint, trials)
    reached = np.array([trial.scores[-1].gpu_hours for trial in trials]) / joint.target
    later = np.clip(joint.observed(places, runs, np.stack([reached, 2 * reached], axis=1)), 0.0, 1.0)
    more = (np.diff(later)[:, :, 0] > EQUIVALENCE_MARGIN).mean(axis=0)  # chances of a notable rise by twice the compute
    found = {}
    for row, (trial, state) in enumerate(zip(trials, states_of(trials), strict=True)):
        parameters = {name: _interval(draws) for name, draws in joint.parameters(int(places[row])).items()}
        width = parameters["A"].high - parameters["A"].low
        verdict, _ = judge(state, float(more[row]), width, 1.0)
        found[trial.trial] = TrialBelief(
            verdict=str(verdict),
            score=_interval(scores[:, row]),
            probability_best=0.0 if trial.state in OUT else float(best[places[row]]),
            parameters=parameters,
            upto_gpu_hours=trial.scores[-1].gpu_hours,
        )
    return found


def scores_at_target(joint: JointDraws, trials: Sequence[TrialView]) -> Vector:
    """Return draws × trials; one of many runs of a configuration that was not fitted scores as the others do."""
    places, runs = joint.rows_of(trials)
    own = joint.observed(places, runs, np.ones((len(trials), 1)))[:, :, 0]
    return np.where(runs >= 0, np.clip(own, 0.0, 1.0), joint.at_target[:, places])


def states_of(trials: Sequence[TrialView]) -> list[State]:
    """Return where each curve stands; it has collapsed where the joint model takes it to have."""
    if not trials:
        return []
    return [
        replace(state, collapsed=before_collapse([point.score for point in trial.scores]) < len(trial.scores))
        for trial, state in zip(trials, states(prepare([curve_of(each) for each in trials])), strict=True)
    ]


def curve_of(trial: TrialView) -> Curve:
    """Return the trial's committed scores as a curve of pass rates over its own GPU-hours."""
    errors = [point.standard_error for point in trial.scores]
    known = [error for error in errors if error is not None]
    return Curve.of(
        trial.name,
        [point.gpu_hours for point in trial.scores],
        np.clip([point.score for point in trial.scores], 0.0, 1.0),
        bounded=True,
        standard_errors=known if len(known) == len(errors) else None,
    )


def _interval(draws: Vector) -> Interval:
    return Interval(*np.quantile(draws, (0.5, *INTERVAL_ENDS)).tolist())
