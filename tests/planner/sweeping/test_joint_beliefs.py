from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from planner.pooling.opening import MOST_RUNS, joint_of
from planner.sweeping.beliefs import LEVEL, Beliefs
from planner.sweeping.joint_beliefs import JointBeliefs
from planner.sweeping.predictions import Explained
from planner.trials import TrialState
from planner.view import TrialView
from tests.planner.pooling.sweeps import along, smooth, sweep
from tests.planner.sweeping.views import trial, view

CELLS = ((4, 16), (8, 32), (16, 64), (32, 128))
TRUTH = smooth(6, CELLS)
SEEN = sweep(TRUTH, dict.fromkeys(CELLS[:3], 40))


class Counting(Beliefs):
    """Counts how many curves were explained."""

    def __init__(self) -> None:
        super().__init__()
        self.explained: list[int] = []

    def explain(self, trials: Sequence[TrialView]) -> list[Explained]:
        self.explained += [each.trial for each in trials]
        return super().explain(trials)


def test_there_is_a_belief_of_every_trial_with_a_curve() -> None:
    believed = JointBeliefs().of(SEEN)
    assert list(believed) == [1, 2, 3]
    assert len(believed) == 3
    assert 4 not in believed
    with pytest.raises(KeyError):
        believed[4]


def test_without_a_curve_there_is_none() -> None:
    assert dict(JointBeliefs().of(view([trial(1), trial(2)]))) == {}
    assert len(JointBeliefs().of(view([]))) == 0


def test_curves_are_explained_when_they_are_looked_at() -> None:
    alone = Counting()
    believed = JointBeliefs(alone=alone).of(SEEN)
    assert alone.explained == []
    belief = believed[2]
    assert alone.explained == [2]
    assert belief.verdict == Beliefs().explain([SEEN.trials[2]])[0].verdict


def test_a_prediction_is_that_of_its_own_run() -> None:
    worlds = joint_of(SEEN)
    for number, belief in JointBeliefs().of(SEEN).items():
        assert belief.low <= belief.median <= belief.high
        assert belief.low <= belief.mean <= belief.high
        assert belief.upto_gpu_hours == 40.0
        place = worlds.configurations.index(SEEN.trials[number].configuration)
        scores = worlds.at(1.0)[:, place]
        low, high = np.quantile(scores, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        assert (belief.low, belief.high) == pytest.approx((low, high))
        assert belief.low - 0.03 < TRUTH[SEEN.trials[number].cell].at(1.0) < belief.high + 0.03


@pytest.mark.parametrize("out", [TrialState.PRUNED, TrialState.FAILED])
def test_what_is_out_has_no_chance(out: TrialState) -> None:
    best = max(JointBeliefs().of(SEEN).items(), key=lambda each: each[1].probability_best)[0]
    gone = replace(SEEN, trials={**SEEN.trials, best: replace(SEEN.trials[best], state=out)})
    assert JointBeliefs().of(SEEN)[best].probability_best > 0.1
    assert JointBeliefs().of(gone)[best].probability_best == 0.0


def test_chances_are_of_configurations_and_sum_to_no_more_than_one() -> None:
    twins = [along(10 + number, CELLS[0], TRUTH[CELLS[0]], 40) for number in range(MOST_RUNS + 2)]
    seen = view([*SEEN.trials.values(), *twins])
    believed = JointBeliefs().of(seen)
    by_configuration: dict[object, set[float]] = {}
    for number, belief in believed.items():
        by_configuration.setdefault(seen.trials[number].configuration, set()).add(belief.probability_best)
    assert all(len(each) == 1 for each in by_configuration.values())
    assert sum(sum(each) for each in by_configuration.values()) <= 1 + 1e-9
    assert len(believed) == 3 + len(twins)
