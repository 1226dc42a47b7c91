"""What a policy believes: each curve's posterior at the target, and the chance to end as the best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from planner.belief.draws import JointDraws, shares_of_best
from planner.curves.curve import Curve, Vector
from planner.curves.preparation import prepare
from planner.curves.verdicts import State, before_collapse, judge, states
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_ENDS, Interval
from planner.view import Configuration, TrialState, TrialView, View, by_configuration

OUT = frozenset({TrialState.FAILED, TrialState.PRUNED})  # of the competition
# A configuration that deserves to win is given up in at most one of fifty such judgements, and a chance of 2 % to win
# is worth at most 2 % of what the best differ by: less than the noise between seeds.
ALPHA = 0.02
# Among many that are equal all have little chance: the bar is α for up to so many, and falls with their number beyond.
MANY = 10
LEAST_GAP_SD = 1e-9
FINALIST = 0.2  # chance to be near the best, from which on another seed may be worth its price


class Chances:
    """What the draws say of the configurations that can be chosen: those with a trial that has not failed, or none."""

    def __init__(self, view: View, joint: JointDraws) -> None:
        self.joint = joint
        runs = by_configuration(view.trials.values())
        lost = {candidate for candidate, trials in runs.items() if all(trial.state in OUT for trial in trials)}
        rows = [row for row, configuration in enumerate(joint.configurations) if configuration not in lost]
        # Those that can be chosen; where every trial failed or was pruned, all.
        self.places: NDArray[np.intp] = np.array(rows or range(len(joint.configurations)), dtype=np.intp)
        self.candidates = [joint.configurations[row] for row in self.places]
        self.place = {configuration: index for index, configuration in enumerate(self.candidates)}
        scores = joint.at_target[:, self.places]
        highest = scores.max(axis=1, keepdims=True)
        self.mean: Vector = scores.mean(axis=0)
        self.low, self.median, self.high = np.quantile(scores, (0.05, 0.5, 0.95), axis=0)
        self.best: Vector = shares_of_best(scores)
        self.near: Vector = (scores >= highest - EQUIVALENCE_MARGIN).mean(axis=0)
        self.leader = int(np.argmax(self.mean))
        # Few draws do not tell a small chance from none: that of a normal of the same gap to the leader is the least.
        gap = scores - scores[:, [self.leader]]
        tail = ndtr((gap.mean(axis=0) + EQUIVALENCE_MARGIN) / np.maximum(gap.std(axis=0), LEAST_GAP_SD))
        self.near_at_most: Vector = np.maximum(self.near, tail)
        order = np.argsort(-self.mean, kind="stable")
        self.protected = {int(place) for place in (*order[:2], int(np.argmax(self.best)))}

    @property
    def finalists(self) -> list[Configuration]:
        """Return those with a fair chance to be within 0.02 of the best."""
        return [candidate for candidate, near in zip(self.candidates, self.near, strict=True) if near >= FINALIST]

    def figures(self, place: int) -> dict[str, float]:
        """Return what is stored with a decision about a configuration."""
        return {
            "probability_best": float(self.best[place]),
            "probability_near_best": float(self.near[place]),
            "median": float(self.median[place]),
            "low": float(self.low[place]),
            "high": float(self.high[place]),
        }


def bar(alpha: float, configurations: int) -> float:
    """Return the probability below which a configuration is given up, among so many: never on a point estimate."""
    return alpha * min(1.0, MANY / max(configurations, 1))


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
    beliefs = {}
    for row, (trial, state) in enumerate(zip(trials, states_of(trials), strict=True)):
        parameters = {name: _interval(draws) for name, draws in joint.parameters(int(places[row])).items()}
        width = parameters["A"].high - parameters["A"].low
        verdict, _ = judge(state, float(more[row]), width, 1.0)
        beliefs[trial.trial] = TrialBelief(
            verdict=str(verdict),
            score=_interval(scores[:, row]),
            probability_best=0.0 if trial.state in OUT else float(best[places[row]]),
            parameters=parameters,
            upto_gpu_hours=trial.scores[-1].gpu_hours,
        )
    return beliefs


def scores_at_target(joint: JointDraws, trials: Sequence[TrialView]) -> Vector:
    """Return draws × trials; one of many runs of a configuration that was not fitted scores as the others do."""
    places, runs = joint.rows_of(trials)
    scores = joint.observed(places, runs, np.ones((len(trials), 1)))[:, :, 0]
    return np.where(runs >= 0, np.clip(scores, 0.0, 1.0), joint.at_target[:, places])


def states_of(trials: Sequence[TrialView]) -> list[State]:
    """Return where each curve stands; it has collapsed where the joint model takes it to have."""
    if not trials:
        return []
    return [
        replace(state, collapsed=before_collapse([point.score for point in trial.scores]) < len(trial.scores))
        for trial, state in zip(trials, states(prepare([curve_of(trial) for trial in trials])), strict=True)
    ]


def curve_of(trial: TrialView) -> Curve:
    """Return the trial's committed scores as a curve of pass rates over its own GPU-hours."""
    errors = [point.standard_error for point in trial.scores]
    stated = [error for error in errors if error is not None]
    return Curve.of(
        trial.name,
        [point.gpu_hours for point in trial.scores],
        np.clip([point.score for point in trial.scores], 0.0, 1.0),
        bounded=True,
        standard_errors=stated if len(stated) == len(errors) else None,
    )


def _interval(draws: Vector) -> Interval:
    return Interval(*np.quantile(draws, (0.5, *INTERVAL_ENDS)).tolist())
