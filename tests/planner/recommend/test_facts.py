"""How long a final run is: in whole validations, within its GPU-hours, and not as often scored as its pilot."""

from dataclasses import replace

import numpy as np
import pytest

from planner.metrics import SEED_SD
from planner.recommend.facts import PRIOR_RISK, ConfigurationFacts, FinalPrice, collapse_risks, facts_of, seed_sd
from planner.view import Configuration, ScorePoint, TrialState, TrialView, View
from tests.planner.policy.views import scores, trial, view


@pytest.mark.parametrize("begun", [0, 130])
@pytest.mark.parametrize("validation", [0.0, 0.5])
@pytest.mark.parametrize("validations", [1, 8, 40])
def test_a_run_ends_with_a_validation_and_leaves_no_segment_unpaid(
    begun: int, validation: float, validations: int
) -> None:
    price = FinalPrice(0.1, validation, start_up=0.2, slots=8, begun=begun)
    run = price.length(100.0, validations)
    assert run.steps % run.segment_steps == 0
    assert run.steps > begun
    segment = run.segment_steps * run.gpu_hours_per_step
    assert 100.0 - 1.5 * segment < run.gpu_hours < 100.0


def test_a_run_that_cannot_reach_its_first_validation_makes_no_update_more() -> None:
    price = FinalPrice(0.1, start_up=2.0, begun=50)
    assert price.length(2.0).steps == 50
    assert price.length(2.0).least_gpu_hours > 2.0
    assert FinalPrice(0.1, most_steps=120).length(100.0).steps == 120


def test_a_pilot_that_was_scored_often_prices_a_run_that_is_scored_seldom() -> None:
    """Half of the pilot's time was validations, every ten updates."""
    scores = [ScorePoint(10 * number, 2.0 * number, 0.5, None, 1.0) for number in range(5)]
    update, validation = FinalPrice.split(0.2, scores)
    assert (update, validation) == (pytest.approx(0.1), pytest.approx(1.0))
    seldom = FinalPrice(update, validation).length(100.0, 10)
    assert seldom.steps > 1.5 * FinalPrice(0.2).length(100.0, 10).steps
    assert FinalPrice.split(0.2, [score._replace(validation_gpu_hours=0.0) for score in scores]) == (0.2, 0.0)


PAUSED, FAILED = TrialState.PAUSED, TrialState.FAILED
CELLS = {(4, 32): 0.5, (8, 32): 0.6, (16, 32): 0.7, (32, 32): 0.65}


def seen() -> View:
    trials = [
        trial(i, PAUSED, step=40, asymptote=top, middle=4.0, cell=cell) for i, (cell, top) in enumerate(CELLS.items())
    ]
    return view(trials)


def planned(*cells: tuple[int, int]) -> dict[Configuration, ConfigurationFacts]:
    return {Configuration(*cell): ConfigurationFacts(1e-6, "grpo", 0.5) for cell in (*CELLS, *cells)}


def fallen(steps: int) -> tuple[ScorePoint, ...]:
    return tuple(each._replace(score=0.0) if each.step > steps / 2 else each for each in scores(steps, 1.0, 0.9, 4.0))


def test_facts_are_those_of_the_trials() -> None:
    trials = list(seen().trials.values())
    trials.append(trial(7, TrialState.PRUNED, step=10, cell=(4, 32)))
    trials.append(trial(8, FAILED, cell=(64, 32)))
    found = facts_of(view(trials), planned((64, 32), (128, 32)))
    twice = found[Configuration(4, 32)]
    assert (twice.seeds_seen, twice.reached_gpu_hours) == (2, 40.0)
    assert (twice.status, twice.gpu_hours_spent, twice.gpu_hours_per_step) == ("paused", 50.0, 1.0)
    assert found[Configuration(64, 32)].failed
    assert not found[Configuration(64, 32)].has_own_curve
    assert found[Configuration(128, 32)] == ConfigurationFacts(1e-6, "grpo", 0.5)


def test_a_collapse_is_seen() -> None:
    trials = [*seen().trials.values(), trial(9, PAUSED, step=60, cell=(64, 32), seen=fallen(60))]
    found = facts_of(view(trials), planned((64, 32)))
    assert found[Configuration(64, 32)].collapsed_runs == 1
    assert all(each.collapsed_runs == 0 for where, each in found.items() if where.rollouts_per_prompt < 64)


def test_the_risk_to_collapse_is_that_of_the_runs_near() -> None:
    places = [Configuration(2**k, 32) for k in range(1, 9)] + [Configuration(256, 32, (("recipe", "other"),))]
    known = [ConfigurationFacts(1e-6, "r", 1.0, seeds_seen=2, collapsed_runs=2 * (k == 7)) for k in range(9)]
    risks = collapse_risks(places, known)
    assert risks[7] == risks.max() > 0.4
    assert np.all(np.diff(risks[3:8]) > 0)
    assert risks[0] < PRIOR_RISK
    assert risks[6] > risks[8] > risks[0]  # another recipe tells half of what its neighbour does


def test_seeds_that_agree_say_little_and_seeds_that_differ_much() -> None:
    def runs(gap: float) -> list[TrialView]:
        return [
            trial(number, PAUSED, step=40, asymptote=0.6 + gap * number, middle=4.0, cell=(8, 32))
            for number in range(3)
        ]

    assert seed_sd([]) == SEED_SD
    assert seed_sd(seen().trials.values()) == SEED_SD  # no configuration was run twice
    assert seed_sd(runs(0.0)) < 1.2 * SEED_SD
    assert seed_sd(runs(0.1)) > 2 * SEED_SD  # 0.08 of score at 0.6 to 0.8


def test_a_score_of_the_base_model_alone_is_no_curve_however_long_it_took() -> None:
    base = trial(1, PAUSED, step=1)
    base = replace(base, scores=(ScorePoint(0, 0.01, 0.3, 0.02),))
    found = facts_of(view([base]), {base.configuration: ConfigurationFacts(1e-6, "grpo", 0.5)})
    assert not found[base.configuration].has_own_curve
