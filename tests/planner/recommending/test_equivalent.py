"""What cannot be told apart, and which of it is taken."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.recommending.equivalent import TIE, Settled, equivalents, settle
from planner.recommending.facts import Facts
from planner.recommending.prospect import Prospect
from tests.planner.recommending.worlds import TARGET, Sigmoids, facts, sigmoids

ALIKE = {(16, 64): 0.700, (8, 64): 0.699, (8, 16): 0.698}
UNSEEN = {"reached_gpu_hours": 0.0, "seeds_seen": 0}


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


NONE_IS_HIGHER = "none other is expected to score as high"


@pytest.mark.parametrize(
    ("joint", "seen", "taken", "said"),
    [
        (sigmoids({(16, 64): 0.7, (8, 64): 0.6}, sd=0.001), [{"collapsed_runs": 2}, {}], 0, NONE_IS_HIGHER),
        (sigmoids({(16, 16): 0.7, (8, 64): 0.7 - 1.5 * TIE}, sd=0.0), [{}, {}], 0, NONE_IS_HIGHER),
        (sigmoids(ALIKE, sd=0.0), [UNSEEN, UNSEEN, {}], 2, "among 3 within 0.005 in expectation it has been seen in"),
        (
            sigmoids({(128, 64): 0.7, (4, 64): 0.699}, sd=0.0),
            [{"collapsed_runs": 2}, {}],
            1,
            "it is the steadier: its risk to collapse is 0.01, not 0.75",
        ),
        (
            sigmoids({(16, 64): 0.701, (8, 64): 0.699}, sd=0.0, falls_at={(16, 64): 1.5 * TARGET}),
            [{}, {}],
            1,
            "it bears a misjudged budget best: from ½ to 2 × it falls 0.00",
        ),
        (
            sigmoids({(16, 64): 0.702, (8, 64): 0.700}, sd=0.0, middle={(16, 64): 1.5, (8, 64): 0.5}),
            [{}, {}],
            1,
            "it is the cheapest: 0.68",
        ),
        (sigmoids({(16, 16): 0.7, (8, 64): 0.7, (8, 32): 0.7}, sd=0.0), [{}] * 3, 1, "it has the larger B"),
    ],
)
def test_a_clear_best_is_taken_and_of_equals_the_first_criterion_that_tells_decides(
    joint: Sigmoids, seen: list[dict[str, Any]], taken: int, said: str
) -> None:
    known = {each: facts(joint, **changes)[each] for each, changes in zip(joint.configurations, seen, strict=True)}
    found = settled(joint, known)
    assert found.row == taken
    assert said in found.reason


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.3, 0.9), min_size=1, max_size=8), st.floats(0, 0.1), st.integers(0, 99))
def test_what_is_taken_is_as_good_as_the_best_and_equal_input_gives_equal_answers(
    tops: list[float], sd: float, seed: int
) -> None:
    joint = sigmoids({(2 ** (1 + i % 3), 2 + i): top for i, top in enumerate(tops)}, sd=sd, draws=60, seed=seed)
    found = settled(joint)
    assert found.row in found.equivalent
    assert found == settled(joint)
    expected = Prospect.of(joint, facts(joint), TARGET).expected
    rung = 18
    assert expected[rung].max() - expected[rung, found.row] <= TIE
