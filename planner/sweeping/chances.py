"""How the configurations stand at the target, as figures: means, intervals, chances to be the best or near it."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from planner.curves.curve import Vector
from planner.metrics import EQUIVALENCE_MARGIN
from planner.pooling.draws import JointDraws, shares_of_best
from planner.trials import TrialState
from planner.view import Configuration, View, by_configuration

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
        lost = {each for each, trials in runs.items() if all(trial.state in OUT for trial in trials)}
        rows = [row for row, each in enumerate(joint.configurations) if each not in lost]
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
        return [each for each, near in zip(self.candidates, self.near, strict=True) if near >= FINALIST]

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
