"""What cannot be told apart, and which of it is taken."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.recommending.equivalent import (
    TIE,
    Settled,
    equivalents,
    gpu_hours_to_reach,
    largest_shortfall,
    settle,
)
from planner.recommending.facts import Facts
from planner.recommending.prospect import Prospect
from tests.planner.recommending.worlds import TARGET, Sigmoids, facts, sigmoids

ALIKE = {(16, 64): 0.700, (8, 64): 0.699, (8, 16): 0.698}


def settled(joint: Sigmoids, known: Facts | None = None) -> Settled:
    seen = Prospect.of(joint, known or facts(joint), TARGET)
    return settle(seen, seen.rung(0))


def test_what_lies_within_the_noise_of_seeds_or_has_fair_odds_is_equivalent() -> None:
    joint = sigmoids({(8, 32): 0.70, (16, 32): 0.685, (32, 32): 0.66, (64, 32): 0.5}, sd=0.001)
    seen = Prospect.of(joint, facts(joint), TARGET)
    assert equivalents(seen, seen.rung(0)) == (0, 1)
    wide = sigmoids({(8, 32): 0.70, (16, 32): 0.685, (32, 32): 0.66, (64, 32): 0.4}, sd=0.08)
    seen = Prospect.of(wide, facts(wide), TARGET)
    assert equivalents(seen, seen.rung(0)) == (0, 1, 2)  # 0.04 apart, but no better than 2 to 1


def test_a_clear_best_is_taken_whatever_else_speaks_against_it() -> None:
    joint = sigmoids({(16, 64): 0.7, (8, 64): 0.6}, sd=0.001)
    known = facts(joint)
    one = joint.configurations[0]
    risky = facts(joint, collapsed_runs=2)
    found = settled(joint, {**known, one: risky[one]})
    assert (found.row, found.tied, found.reason) == (0, (0,), "none other is expected to score as high")


def test_no_more_than_the_tie_is_given_up() -> None:
    joint = sigmoids({(16, 16): 0.7, (8, 64): 0.7 - 1.5 * TIE}, sd=0.0)
    assert settled(joint).row == 0


def test_of_equals_one_that_was_seen_is_taken() -> None:
    joint = sigmoids(ALIKE, sd=0.0)
    known, unseen = facts(joint), facts(joint, reached_gpu_hours=0.0, seeds_seen=0)
    first, second, third = joint.configurations
    found = settled(joint, {first: unseen[first], second: unseen[second], third: known[third]})
    assert found.row == 2
    assert found.reason == "among 3 within 0.005 in expectation it has been seen in a pilot of its own"


def test_of_equals_the_steadier_is_taken() -> None:
    joint = sigmoids({(128, 64): 0.7, (4, 64): 0.699}, sd=0.0)
    known, collapsed = facts(joint), facts(joint, collapsed_runs=2)
    first, second = joint.configurations
    found = settled(joint, {first: collapsed[first], second: known[second]})
    assert found.row == 1
    assert "it is the steadier: its risk to collapse is 0.01, not 0.75" in found.reason


def test_of_equals_the_one_that_bears_a_misjudged_budget_is_taken() -> None:
    joint = sigmoids({(16, 64): 0.701, (8, 64): 0.699}, sd=0.0, falls_at={(16, 64): 1.5 * TARGET})
    found = settled(joint)
    assert found.row == 1
    assert "it bears a misjudged budget best: from ½ to 2 × it falls 0.00" in found.reason


def test_of_equals_the_cheapest_is_taken() -> None:
    joint = sigmoids({(16, 64): 0.702, (8, 64): 0.700}, sd=0.0, middle={(16, 64): 1.5, (8, 64): 0.5})
    found = settled(joint)
    assert found.row == 1
    assert "it is the cheapest: 0.68" in found.reason


def test_of_equals_in_all_the_larger_batch_is_taken() -> None:
    joint = sigmoids({(16, 16): 0.7, (8, 64): 0.7, (8, 32): 0.7}, sd=0.0)
    found = settled(joint)
    assert (found.row, found.tied) == (1, (0, 1, 2))
    assert found.reason.endswith("it has the larger B, which makes steadier updates")


def test_gpu_hours_to_reach_a_score_are_those_of_the_curve() -> None:
    joint = sigmoids({(8, 32): 0.7, (16, 32): 0.4}, sd=0.0, middle=5.0)
    seen = Prospect.of(joint, facts(joint), TARGET)
    found = gpu_hours_to_reach(seen, 0.45)  # half of the way from 0.2 to 0.7
    assert found[0] == pytest.approx(5.0, rel=0.01)
    assert np.isinf(found[1])
    assert gpu_hours_to_reach(seen, 0.0)[1] == pytest.approx(seen.gpu_hours[0])


def test_a_budget_too_small_for_a_step_is_no_shortfall() -> None:
    joint = sigmoids({(8, 32): 0.7, (16, 32): 0.7}, sd=0.0)
    known, dear = facts(joint), facts(joint, gpu_hours_per_step=0.8 * TARGET)
    one, two = joint.configurations
    seen = Prospect.of(joint, {one: known[one], two: dear[two]}, TARGET)
    assert largest_shortfall(seen, seen.rung(0)).tolist() == [0, 0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.3, 0.9), min_size=1, max_size=8), st.floats(0, 0.1), st.integers(0, 99))
def test_what_is_taken_is_tied_what_is_tied_is_equivalent_and_equal_input_gives_equal_answers(
    tops: list[float], sd: float, seed: int
) -> None:
    joint = sigmoids({(2 ** (1 + i % 3), 2 + i): top for i, top in enumerate(tops)}, sd=sd, draws=60, seed=seed)
    found = settled(joint)
    assert found.row in found.tied
    assert set(found.tied) <= set(found.equivalent)
    assert found == settled(joint)
    expected = Prospect.of(joint, facts(joint), TARGET).expected
    rung = 18
    assert expected[rung].max() - expected[rung, found.row] <= TIE
