from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from planner.curves.curve import Vector
from planner.curves.fitting import fit_curves
from planner.sweeping.beliefs import Beliefs
from planner.sweeping.predictions import SingleCurves, curve_of
from planner.trials import TrialState
from planner.view import Seen, TrialView
from tests.planner.sweeping.views import scores, trial, view


class Counting(SingleCurves):
    def __init__(self) -> None:
        self.predicted: list[int] = []

    def cumulative(self, trials: Sequence[TrialView], target_gpu_hours: float) -> Vector:
        self.predicted += [each.trial for each in trials]
        return super().cumulative(trials, target_gpu_hours)


def some(count: int = 4, step: int = 20) -> list[TrialView]:
    return [trial(i, TrialState.PAUSED, step=step, asymptote=0.5 + 0.08 * i) for i in range(count)]


def test_beliefs_are_those_of_the_fits() -> None:
    trials = some()
    beliefs = Beliefs().of(view(trials))
    fits = fit_curves([curve_of(each) for each in trials], [[100.0]] * 4)
    assert list(beliefs) == [0, 1, 2, 3]
    for fit, belief in zip(fits, beliefs.values(), strict=True):
        predicted = fit.predictions[0]
        assert (belief.median, belief.low, belief.high) == pytest.approx(
            (predicted.mean, predicted.low, predicted.high), abs=0.005
        )
        assert belief.mean == pytest.approx(predicted.expectation, abs=0.005)
        assert (belief.verdict, belief.evidence) == (fit.verdict, fit.evidence)
        assert belief.parameters["A"]["median"] == pytest.approx(fit.parameters["A"].median)
        assert belief.upto_gpu_hours == 20
    assert sum(belief.probability_best for belief in beliefs.values()) == pytest.approx(1)


def test_only_trials_with_a_score_after_the_start_have_a_belief() -> None:
    before_training = trial(1, TrialState.PAUSED, seen=[Seen(0, 0.0, 0.2, 0.01)])
    beliefs = Beliefs().of(view([trial(0), before_training, *some()[2:]]))
    assert set(beliefs) == {2, 3}
    assert len(beliefs) == 2
    for absent in (0, 1, 99):
        with pytest.raises(KeyError):
            beliefs[absent]


def test_a_trial_whose_scores_are_the_same_costs_nothing() -> None:
    predictor = Counting()
    beliefs, trials = Beliefs(predictor), some()
    beliefs.of(view(trials))
    assert sorted(predictor.predicted) == [0, 1, 2, 3]
    trials[1] = replace(trials[1], state=TrialState.RUNNING)
    trials[2] = replace(trials[2], step=21, scores=scores(21, 1.0, 0.66, 8.0, seed=2))
    beliefs.of(view(trials))
    assert predictor.predicted[4:] == [2]
    beliefs.of(view(trials, target=200))
    assert sorted(predictor.predicted[5:]) == [0, 1, 2, 3]


@pytest.mark.parametrize("change", ["more", "fewer", "reordered", "pruned", "scores taken back"])
def test_what_is_kept_never_changes_an_answer(change: str) -> None:
    trials, kept = some(), Beliefs()
    kept.of(view(trials))
    changed = {
        "more": [*trials, trial(9, TrialState.PAUSED, step=10)],
        "fewer": trials[1:],
        "reordered": trials[::-1],
        "pruned": [*trials[:3], replace(trials[3], state=TrialState.PRUNED)],
        "scores taken back": [replace(trials[0], scores=(), step=0), *trials[1:]],
    }[change]
    last = view(changed)
    assert dict(kept.of(last)) == dict(Beliefs().of(last))


def test_a_map_of_beliefs_outlives_the_next_view() -> None:
    trials, beliefs = some(), Beliefs()
    first = beliefs.of(view(trials))
    before = dict(first)
    trials[0] = replace(trials[0], step=40, scores=scores(40, 1.0, 0.9, 8.0))
    beliefs.of(view(trials))
    assert dict(first) == before


@pytest.mark.parametrize("state", [TrialState.PRUNED, TrialState.FAILED])
def test_what_is_out_has_a_prediction_and_no_chance(state: TrialState) -> None:
    trials = some()
    trials[3] = replace(trials[3], state=state)
    belief = Beliefs().of(view(trials))[3]
    assert belief.probability_best == 0
    assert belief.low < belief.median < belief.high


def test_trials_without_a_curve_lower_the_others_chances() -> None:
    alone, among = Beliefs().of(view(some())), Beliefs().of(view([*some(), trial(10), trial(11)]))
    assert all(among[i].probability_best < alone[i].probability_best for i in range(4))


def test_scores_beyond_a_pass_rate_are_taken_at_its_bounds() -> None:
    odd = trial(0, TrialState.PAUSED, seen=[Seen(step, float(step), 1.2, None) for step in range(1, 9)])
    belief = Beliefs().of(view([odd]))[0]
    assert 0.5 < belief.low <= belief.median <= belief.high <= 1


def test_a_prediction_narrows_with_the_curve() -> None:
    widths = []
    for step in (5, 20, 80):
        belief = Beliefs().of(view([trial(0, TrialState.PAUSED, step=step)]))[0]
        widths.append(belief.high - belief.low)
    assert np.all(np.diff(widths) < 0)
