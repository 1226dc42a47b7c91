"""The whole answer: what is chosen, what is said about it, and that all parts agree."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import BudgetError, NotFoundError
from planner.axes import named_configuration
from planner.recommending.answer import FinalAnswer, answer, answer_data
from planner.recommending.facts import alike
from planner.view import Configuration
from tests.planner.recommending.worlds import TARGET, Sigmoids, facts, sigmoids

TOPS = {(4, 32): 0.60, (8, 32): 0.68, (16, 32): 0.72, (32, 32): 0.70, (16, 16): 0.66, (16, 64): 0.71}


def answered(joint: Sigmoids, target: float = TARGET, **changes: Any) -> FinalAnswer:
    return answer(joint, facts(joint, **changes), target, prompt_set_size=6000)


def kinds(found: FinalAnswer) -> set[str]:
    return {caution.kind for caution in found.cautions}


def text(found: FinalAnswer, kind: str) -> str:
    return next(caution.text for caution in found.cautions if caution.kind == kind)


def test_the_best_is_chosen_with_the_run_that_the_target_pays_for() -> None:
    found = answered(sigmoids(TOPS))
    chosen = found.chosen
    assert chosen.configuration == Configuration(16, 32)
    assert (chosen.update_steps, chosen.learning_rate, chosen.recipe) == (333, 1e-6, "grpo")
    assert chosen.gpu_hours == pytest.approx(99.9)
    assert chosen.score_low < 0.72 < chosen.score_high
    assert chosen.probability_best <= chosen.probability_within_001 <= chosen.probability_within_002
    assert found.runner_up is not None
    assert found.runner_up.choice.configuration == Configuration(16, 64)
    assert [each.factor for each in found.budgets] == [0.25, 0.5, 1, 2, 4]
    assert found.budgets[2].choice == chosen
    assert [each.configuration for each in found.ranked][:2] == [(16, 32, ()), (16, 64, ())]
    assert set(found.ranked) >= set(found.equivalent)
    assert chosen not in found.equivalent
    assert found.frontier.points[6].choice == chosen


@pytest.mark.parametrize(
    ("seeds", "said"),
    [(0, "is the configuration, by what any run"), (1, "Compared is the run that its pilot"), (2, "the 2 runs")],
)
def test_it_is_said_whether_the_run_or_the_configuration_was_compared(seeds: int, said: str) -> None:
    found = answered(sigmoids(TOPS), seeds_seen=seeds)
    assert said in found.valued
    assert answer_data(found)["valued"] == found.valued


def test_the_interval_is_wider_where_seeds_differ_more() -> None:
    joint = sigmoids(TOPS)
    calm, noisy = (answer(joint, facts(joint), TARGET, seed_sd=sd) for sd in (0.0, 0.03))
    assert noisy.chosen.score_high - noisy.chosen.score_low > 2 * (calm.chosen.score_high - calm.chosen.score_low)
    assert noisy.chosen.probability_best == calm.chosen.probability_best
    assert "noise" in kinds(noisy) - kinds(calm)


def test_one_configuration_is_an_answer_without_a_runner_up() -> None:
    found = answered(sigmoids({(8, 32): 0.6}))
    assert (found.runner_up, found.equivalent, found.chosen.probability_best) == (None, (), 1)
    assert found.what.startswith("Run n=8, B=32 for ")


def test_what_has_failed_is_left_out_and_named() -> None:
    joint = sigmoids(TOPS)
    known, failed = facts(joint), facts(joint, failed=True, status="failed")
    best = Configuration(16, 32)
    found = answer(joint, {**known, best: failed[best]}, TARGET)
    assert found.chosen.configuration == Configuration(16, 64)
    assert list(found.left_out) == [best]
    assert "n=16, B=32" in text(found, "failed")
    assert best not in {each.configuration for each in found.ranked}


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"reached_gpu_hours": 0.0}, NotFoundError, "none of 6 configurations has a score after its first update"),
        ({"failed": True}, NotFoundError, "all 6 configurations have failed"),
        ({"gpu_hours_per_step": 3 * TARGET}, BudgetError, "do not pay for one update step of any"),
    ],
)
def test_without_anything_to_choose_the_error_says_why(changes: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        answered(sigmoids(TOPS), **changes)


def test_a_budget_that_pays_for_no_update_has_no_choice() -> None:
    found = answered(sigmoids(TOPS), gpu_hours_per_step=0.6 * TARGET)
    assert [each.choice is None for each in found.budgets] == [True, True, False, False, False]
    assert found.chosen.update_steps == 1


def test_the_runner_up_wins_later_if_it_is_slower_and_higher() -> None:
    tops, middles = {(8, 32): 0.7, (64, 32): 0.8}, {(8, 32): 1.0, (64, 32): 60.0}
    found = answered(sigmoids(tops, middle=middles, sd=0.02, spread=0.3), reached_gpu_hours=5.0).runner_up
    assert found is not None
    assert found.choice.rollouts_per_prompt == 64
    assert found.overtakes_at_gpu_hours is not None
    assert TARGET < found.overtakes_at_gpu_hours <= 2 * TARGET
    assert "n=64, B=32 wins if it ends 0.0" in found.sentence
    assert "mostly because it gains 0.0" in found.sentence
    assert "more than expected after its pilot's last score at 5 GPU-hours" in found.sentence
    assert "× the final run" in found.sentence
    assert found.gap_where_it_wins is not None
    assert sum(found.shifts.values()) == pytest.approx(found.gap_where_it_wins + found.gap)


@pytest.mark.parametrize(
    ("joint", "second", "wins", "said"),
    [
        (  # the second overtakes the first at a longer run, and there the third is ahead of both
            sigmoids(
                {(8, 32): 0.7, (32, 32): 0.72, (64, 32): 1.0},
                middle={(8, 32): 1.0, (32, 32): 20.0, (64, 32): 110.0},
                sd=0.005,
            ),
            {},
            False,
            ["it is expected to be ahead, and n=64, B=32 would be taken"],
        ),
        (
            sigmoids({(8, 32): 0.7, (16, 32): 0.69}, sd=0.02),
            {"reached_gpu_hours": 0.0, "seeds_seen": 0},
            True,
            ["scores 0.0", "than its neighbours say"],
        ),
        (
            sigmoids({(8, 32): 0.7, (16, 32): 0.3}, sd=0.001),
            {},
            False,
            ["no final run of ¼ to 4 × the GPU-hours would take it or another"],
        ),
        (
            sigmoids({(16, 64): 0.701, (8, 64): 0.699}, sd=0.0, falls_at={(16, 64): 1.5 * TARGET}),
            {},
            True,
            ["is expected 0.002 higher and was given up in the tie"],
        ),
    ],
    ids=["a third is ahead where it would be", "without a pilot", "never wins", "given up in a tie"],
)
def test_it_is_said_when_the_runner_up_would_win(
    joint: Sigmoids, second: dict[str, Any], wins: bool, said: list[str]
) -> None:
    known = {**facts(joint), joint.configurations[1]: facts(joint, **second)[joint.configurations[1]]}
    found = answer(joint, known, TARGET).runner_up
    assert found is not None
    assert (found.probability_wins > 0) is wins
    assert all(part in found.sentence for part in said)


SAID = re.compile(
    r"(?:(from|up to|at) ([\d.e+-]+) × the final run \(\S+ GPU-hours\) (?:it is [^;]*, and )?(.*?) would be taken)$"
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.3, 0.9), st.floats(0.5, 300.0)), min_size=2, max_size=5), st.integers(0, 99))
def test_the_sentence_of_the_runner_up_agrees_with_the_other_final_runs(cells: Any, seed: int) -> None:
    places = [(2 ** (k + 2), 32) for k in range(len(cells))]
    tops, middles = (dict(zip(places, each, strict=True)) for each in zip(*cells, strict=True))
    found = answered(sigmoids(tops, middle=middles, sd=0.02, seed=seed, draws=60))
    assert found.runner_up is not None
    points = {f"{each.gpu_hours / TARGET:.2g}": each for each in found.frontier.points}
    said = SAID.search(found.runner_up.sentence)
    if said is None:
        assert found.runner_up.sentence.endswith("would take it or another")
        assert {each.choice.configuration for each in points.values()} == {found.chosen.configuration}
        return
    word, times, who = said.groups()
    who = named_configuration(found.runner_up.choice.configuration) if who == "it" else who
    compared = [each for each in points.values() if each.gpu_hours >= 0.99 * float(times) * TARGET]
    if word == "up to":
        compared = [each for each in points.values() if each.gpu_hours <= 1.01 * float(times) * TARGET]
    for point in compared if word != "at" else [points[times]]:
        assert named_configuration(point.choice.configuration) == who


CAUTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"reached_gpu_hours": 4.0}, "extrapolation", "has seen 4 GPU-hours: the prediction reaches 25 × as far"),
    ({"seeds_seen": 1}, "one-seed", "one seed of n=16, B=32 was seen"),
    (
        {"gpu_hours_per_step": 0.01},
        "epochs",
        "goes 53 times over the 6,000 prompts: 25 are known to be harmless, and d",
    ),
    ({"gpu_hours_per_step": 0.004}, "epochs", "and degradation was seen already by 100"),
    ({"collapsed_runs": 1}, "unstable", "1 of its own 2 runs collapsed"),
    ({"declining_runs": 2}, "unstable", "2 of its own 2 runs declined after a peak"),
    ({"collapsed_runs": 2}, "collapse", "of runs near it collapse or decline, seen at n="),
]


@pytest.mark.parametrize(("changes", "kind", "said"), CAUTIONS)
def test_each_caution_is_said_when_it_holds_and_not_else(changes: dict[str, Any], kind: str, said: str) -> None:
    joint = sigmoids(TOPS)
    assert kind not in kinds(answered(joint))
    assert said in text(answered(joint, **changes), kind)


def test_a_choice_without_a_pilot_is_said_to_be_one() -> None:
    joint = sigmoids({(8, 32): 0.4, (16, 32): 0.7})
    known, unseen = facts(joint), facts(joint, reached_gpu_hours=0.0, seeds_seen=0)
    best = Configuration(16, 32)
    assert "n=16, B=32 has had no pilot" in text(answer(joint, {**known, best: unseen[best]}, TARGET), "no-pilot")


def test_the_edge_of_the_grid_and_what_cannot_be_told_apart_are_said() -> None:
    found = answered(sigmoids({(2**k, 32): 0.6 + 0.02 * k for k in range(1, 9)}, sd=0.2))
    assert {"edge-n", "unsure"} <= kinds(found)
    assert "n = 256 is the largest of the grid: more rollouts per prompt may be better still" in text(found, "edge-n")
    assert "more pilot GPU-hours may" in text(found, "unsure")
    assert "edge-B" not in kinds(found)  # there is one B


@pytest.mark.parametrize(
    ("count", "near", "said"),
    [
        (1, 0.1, ""),
        (2, 0.9, "either of two will do"),
        (29, 0.53, "any of 29 will do"),
        (2, 0.4, "two cannot be told apart yet"),
        (27, 0.04, "27 cannot be told apart yet"),
    ],
)
def test_equals_are_said_to_be_good_only_where_that_is_likely(count: int, near: float, said: str) -> None:
    assert alike(count, near) == said
