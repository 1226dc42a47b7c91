from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.special import ndtri

from planner.belief.pool import MOST_RUNS, joint_of
from planner.curves.verdicts import Verdict
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_LEVEL
from planner.policy.chances import ALPHA, Chances, TrialBelief, bar, beliefs_of, curve_of, scores_at_target, states_of
from planner.view import Configuration, ScorePoint, TrialState, TrialView, View, has_curve
from tests.planner.belief.sweeps import Curve, along, smooth, sweep
from tests.planner.policy.views import trial, view

CELLS = ((4, 16), (8, 32), (16, 64), (32, 128))
TRUTH = smooth(6, CELLS)
SEEN = sweep(TRUTH, dict.fromkeys(CELLS[:3], 40))


def with_curves(seen: View) -> list[TrialView]:
    return [each for each in seen.trials.values() if has_curve(each)]


def believed(seen: View) -> dict[int, TrialBelief]:
    return beliefs_of(joint_of(seen), with_curves(seen))


def scored(scores: Sequence[float]) -> TrialView:
    seen = [ScorePoint(10 * step, 10.0 * step, score, 0.01) for step, score in enumerate(scores)]
    return trial(0, TrialState.PAUSED, step=10 * len(scores), seen=seen)


def test_a_prediction_is_that_of_its_own_run() -> None:
    worlds = joint_of(SEEN)
    for number, belief in believed(SEEN).items():
        assert belief.score.low <= belief.score.median <= belief.score.high
        assert belief.upto_gpu_hours == 40.0
        place = worlds.configurations.index(SEEN.trials[number].configuration)
        low, high = np.quantile(worlds.at(1.0)[:, place], ((1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2))
        assert (belief.score.low, belief.score.high) == pytest.approx((low, high))
        assert belief.score.low - 0.03 < TRUTH[SEEN.trials[number].cell].at(1.0) < belief.score.high + 0.03


@pytest.mark.parametrize("out", [TrialState.PRUNED, TrialState.FAILED])
def test_what_is_out_has_a_prediction_and_no_chance(out: TrialState) -> None:
    best = max(believed(SEEN).items(), key=lambda each: each[1].probability_best)[0]
    gone = replace(SEEN, trials={**SEEN.trials, best: replace(SEEN.trials[best], state=out)})
    assert believed(SEEN)[best].probability_best > 0.1
    assert believed(gone)[best].probability_best == 0.0
    assert believed(gone)[best].score == believed(SEEN)[best].score


def test_one_seed_that_lives_keeps_its_configuration() -> None:
    twin = along(9, CELLS[0], TRUTH[CELLS[0]], 30)
    pruned = replace(SEEN.trials[1], state=TrialState.PRUNED)
    both = replace(SEEN, trials={**SEEN.trials, 1: pruned, 9: twin})
    assert Configuration(*CELLS[0]) in Chances(both, joint_of(both)).place
    gone = replace(both, trials={**both.trials, 9: replace(twin, state=TrialState.FAILED)})
    assert Configuration(*CELLS[0]) not in Chances(gone, joint_of(gone)).place


def test_chances_are_of_configurations_and_runs_that_were_not_fitted_score_as_theirs_do() -> None:
    twins = [along(10 + number, CELLS[0], TRUTH[CELLS[0]], 40) for number in range(MOST_RUNS + 2)]
    seen = view([*SEEN.trials.values(), *twins])
    by_configuration: dict[object, set[float]] = {}
    for number, belief in believed(seen).items():
        by_configuration.setdefault(seen.trials[number].configuration, set()).add(belief.probability_best)
    assert all(len(each) == 1 for each in by_configuration.values())
    assert sum(sum(each) for each in by_configuration.values()) <= 1 + 1e-9
    worlds = joint_of(seen)
    left = [each for each in with_curves(seen) if each.trial not in worlds.run_of]
    assert len(left) == 3
    assert (scores_at_target(worlds, left) == worlds.at_target[:, [worlds.place[left[0].configuration]]]).all()


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (along(1, (8, 32), Curve(0.2, 0.8, 0.3, 1.5), 30), Verdict.RISING),
        (along(1, (8, 32), Curve(0.2, 0.7, 0.01, 2.5), 90), Verdict.SATURATED),
        (along(1, (8, 32), Curve(0.3, 0.3, 0.1, 1.5), 60), Verdict.FLAT),
        (scored([0.2, 0.4, 0.5, 0.6, 0.6, 0.5, 0.4, 0.35]), Verdict.DECLINING),
        (scored([0.2, 0.4, 0.5]), Verdict.NOT_IDENTIFIABLE),
    ],
)
def test_a_verdict_rests_on_the_scores_and_the_joint_forecast(run: TrialView, verdict: Verdict) -> None:
    seen = view([run])
    assert believed(seen)[run.trial].verdict == verdict


@pytest.mark.parametrize("scores", [[0.2, 0.4, 0.5, 0.1, 0.02], [0.2, 0.4, 0.5, 0.6, 0.15, 0.17]])
def test_a_run_that_the_model_cuts_is_said_to_have_collapsed(scores: list[float]) -> None:
    run = scored(scores)
    assert joint_of(view([run])).runs.collapsed[0] == pytest.approx(np.mean(scores[-2:]))
    assert states_of([run])[0].collapsed
    assert believed(view([run]))[0].verdict == Verdict.COLLAPSED


def test_scores_beyond_a_pass_rate_are_taken_at_its_bounds() -> None:
    assert (curve_of(scored([1.2] * 8)).y == 1.0).all()
    belief = believed(view([scored([0.5, *[1.2] * 8])]))[0]
    assert 0.5 < belief.score.low <= belief.score.median <= belief.score.high <= 1


MANY = 100
SD = 0.05


@pytest.mark.parametrize(("chance", "least", "most"), [(5, 0.0, 0.01), (0.01, 0.9, 1.0)])
def test_among_many_a_few_draws_give_up_what_has_no_chance_and_nothing_else(
    chance: float, least: float, most: float
) -> None:
    limit = bar(ALPHA, MANY)
    behind = -EQUIVALENCE_MARGIN + np.sqrt(2) * SD * ndtri(chance * limit)
    given_up = []
    for seed in range(100):
        scores = np.random.default_rng(seed).normal([0.8, *[0.8 + behind] * 4], SD, (300, 5))
        configurations = tuple(Configuration(2**k, 8) for k in range(1, 6))
        joint = cast(Any, SimpleNamespace(at_target=scores, configurations=configurations))
        found = Chances(view([]), joint)
        given_up.append(found.near_at_most[1:] < limit)
    assert least <= np.mean(given_up) <= most
