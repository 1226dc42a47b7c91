"""Chances, regret and intervals at one compute."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.belief.pool import joint_of
from planner.recommend.choice import by_worth
from planner.recommend.facts import facts_in
from planner.recommend.prospect import RUNGS_PER_OCTAVE, Prospect, beats, interval, odds
from planner.view import Cell
from tests.planner.belief import sweeps
from tests.planner.recommend.worlds import TARGET, Sigmoids, facts, sigmoids


def prospect(joint: Sigmoids) -> Prospect:
    return Prospect.of(joint, facts(joint), TARGET)


def test_two_alike_share_the_chance_and_the_worse_has_none() -> None:
    seen = prospect(sigmoids({(8, 32): 0.7, (16, 32): 0.7, (32, 32): 0.3}, sd=0.02, draws=4000))
    found = odds(seen, seen.rung(0))
    assert found.best == pytest.approx([0.5, 0.5, 0.0], abs=0.03)
    assert found.regret[0] == pytest.approx(0.02 / np.sqrt(np.pi), abs=0.002)  # E[max] of two normals: σ/√π
    assert found.within_near[2] == 0


def test_scores_at_the_bound_tie_and_share() -> None:
    seen = prospect(sigmoids({(8, 32): 5.0, (16, 32): 5.0}, sd=0.0))
    assert odds(seen, seen.rung(0)).best.tolist() == [0.5, 0.5]
    assert beats(seen.scores[seen.rung(0)], 0, 1) == 0.5


def test_the_interval_of_a_new_run_has_the_noise_of_seeds_in_it() -> None:
    scores = np.random.default_rng(0).normal(0.5, 0.03, 20_000)
    low, high = interval(scores, 0.04)
    assert high - low == pytest.approx(2 * 1.645 * 0.05, rel=0.02)
    inside, outside = interval(scores, 0.0)
    assert outside - inside == pytest.approx(2 * 1.645 * 0.03, rel=0.02)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 1.2), min_size=1, max_size=6), st.floats(0, 0.3), st.integers(0, 99))
def test_chances_are_chances_and_the_least_regret_is_the_highest_expectation(
    tops: list[float], sd: float, seed: int
) -> None:
    seen = prospect(sigmoids({(2, 2 + i): top for i, top in enumerate(tops)}, sd=sd, draws=100, seed=seed))
    for rung in (0, seen.rung(0), len(seen.gpu_hours) - 1):
        found = odds(seen, rung)
        assert found.best.sum() == pytest.approx(1)
        assert (found.best <= found.within_near + 1e-12).all()
        assert (found.regret >= 0).all()
        assert found.regret.argmin() == found.expected.argmax() or np.ptp(np.sort(found.regret)[:2]) < 1e-12


@pytest.mark.parametrize("steps", [10, 40, 100])
@pytest.mark.parametrize("truth", [sweeps.smooth, sweeps.unrelated], ids=["smooth", "unrelated"])
@pytest.mark.parametrize("seed", range(2))
def test_a_final_run_far_longer_than_planned_is_never_expected_to_end_lower(
    truth: Callable[[int], dict[Cell, sweeps.Curve]], seed: int, steps: int
) -> None:
    curves = truth(seed)
    shown = sweeps.sweep(curves, dict.fromkeys(list(curves)[::2], steps), seed=seed)
    octaves = 7
    seen = Prospect.of(joint_of(shown), facts_in(shown), sweeps.TARGET, octaves=(0, octaves))
    rungs = [seen.rung(third / RUNGS_PER_OCTAVE) for third in range(octaves * RUNGS_PER_OCTAVE + 1)]
    chosen = [seen.expected[rung, by_worth(seen, rung)[0]] for rung in rungs]
    assert np.diff(chosen).min() > -5e-4  # of so many draws
    assert np.diff(seen.expected[rungs].max(axis=1)).min() > -5e-4


def test_what_cannot_be_run_has_no_chance() -> None:
    joint = sigmoids({(8, 32): 0.9, (16, 32): 0.5, (32, 32): 0.6})
    known = facts(joint)
    failed = facts(joint, failed=True)
    dear = facts(joint, gpu_hours_per_step=2 * TARGET)
    one, two, three = joint.configurations
    seen = Prospect.of(joint, {one: failed[one], two: known[two], three: dear[three]}, TARGET)
    assert odds(seen, seen.rung(0)).best.tolist() == [0, 1, 0]
    assert odds(seen, seen.rung(1)).best[2] > 0.99  # twice the target pays for a step of it
    assert seen.able[seen.rung(0)].tolist() == [False, True, False]


def test_a_final_run_is_longer_by_what_its_pilot_has_been_paid() -> None:
    joint = sigmoids({(8, 16): 0.5, (16, 16): 0.5}, middle=50.0, sd=0.0)
    piloted, untried = joint.configurations
    known = facts(joint)
    known = {piloted: known[piloted], untried: replace(known[untried], reached_gpu_hours=0.0)}
    without, longer = (Prospect.of(joint, known, TARGET, paid=paid) for paid in (False, True))
    rung = longer.rung(0)
    assert longer.lengths(rung).tolist() == [TARGET + known[piloted].reached_gpu_hours, TARGET]
    assert without.lengths(rung).tolist() == [TARGET, TARGET]
    gained = longer.expected[rung] - without.expected[rung]
    assert gained[0] > 0.01
    assert gained[1] == pytest.approx(0.0)
