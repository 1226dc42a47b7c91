"""The whole answer: what is chosen, what is said about it, and that all parts agree."""

import json
from dataclasses import replace
from typing import Any

import pytest

from budgets.errors import BudgetError, NotFoundError
from planner.recommend.answer import FinalAnswer, RunnerUp, answer, answer_data, restored
from planner.view import Configuration
from tests.planner.recommend.worlds import TARGET, Sigmoids, facts, sigmoids

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
    assert chosen.probability_best <= chosen.probability_within_002
    assert found.runner_up is not None
    assert found.runner_up.choice.configuration == Configuration(16, 64)
    assert [each.factor for each in found.budgets] == [0.25, 0.5, 1, 2, 4]
    assert found.budgets[2].choice == chosen
    assert [each.configuration for each in found.ranked][:2] == [(16, 32, ()), (16, 64, ())]
    assert set(found.ranked) >= set(found.equivalent)
    assert chosen not in found.equivalent
    assert found.frontier[18].choice == chosen
    assert restored(json.loads(json.dumps(answer_data(found))), {}) == found


@pytest.mark.parametrize(
    ("seeds", "said"),
    [(0, "rests on pilots of other n and B"), (1, "is for continuing its pilot"), (2, "the longest of its 2 pilots")],
)
def test_it_is_said_whether_the_forecast_is_of_the_pilot_or_of_the_configuration(seeds: int, said: str) -> None:
    found = answered(sigmoids(TOPS), seeds_seen=seeds)
    assert said in found.valued
    assert answer_data(found)["valued"] == found.valued


def test_the_interval_is_wider_where_seeds_differ_more() -> None:
    joint = sigmoids(TOPS)
    fresh = facts(joint, seeds_seen=0, reached_gpu_hours=0.0)
    fresh |= {(8, 32, ()): facts(joint)[Configuration(8, 32)]}
    calm, noisy = (answer(joint, fresh, TARGET, seed_sd=sd) for sd in (0.0, 0.08))
    assert noisy.chosen.score_high - noisy.chosen.score_low > 2 * (calm.chosen.score_high - calm.chosen.score_low)
    assert noisy.chosen.probability_best == calm.chosen.probability_best
    assert "noise" in kinds(noisy) - kinds(calm)
    known = facts(joint)  # its longest pilot goes on, whose seed is known
    calm, noisy = (answer(joint, known, TARGET, seed_sd=sd) for sd in (0.0, 0.08))
    assert (noisy.chosen.score_low, noisy.chosen.score_high) == (calm.chosen.score_low, calm.chosen.score_high)


@pytest.mark.parametrize("place", [("ranking", 1, "expected_score"), ("frontier", 18, "gpu_hours")])
@pytest.mark.parametrize("value", [{}, [], "0.7", None])
def test_a_stored_answer_whose_numbers_are_none_is_not_restored(place: tuple[str, int, str], value: Any) -> None:
    document = json.loads(json.dumps(answer_data(answered(sigmoids(TOPS)))))
    name, row, key = place
    document[name][row][key] = value
    assert restored(document, {}) is None


def test_one_configuration_is_an_answer_without_a_runner_up() -> None:
    found = answered(sigmoids({(8, 32): 0.6}))
    assert (found.runner_up, found.equivalent, found.chosen.probability_best) == (None, (), 1)
    assert found.what.startswith("Run n = 8, B = 32 for ")


def test_what_has_failed_is_left_out_and_named() -> None:
    joint = sigmoids(TOPS)
    known, failed = facts(joint), facts(joint, failed=True, status="failed")
    best = Configuration(16, 32)
    found = answer(joint, {**known, best: failed[best]}, TARGET)
    assert found.chosen.configuration == Configuration(16, 64)
    assert list(found.left_out) == [best]
    assert "n = 16, B = 32" in text(found, "failed")
    assert best not in {each.configuration for each in found.ranked}


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (
            {"reached_gpu_hours": 0.0},
            NotFoundError,
            "after its first update. `rlplan resume` goes on with its sweep",
        ),
        ({"reached_gpu_hours": 0.0, "failed": True}, NotFoundError, "6 failed, and `rlplan retry` runs these again"),
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


@pytest.mark.parametrize(("second", "likely"), [(0.69, "24 % likely"), (0.3, "under 1 % likely")])
def test_the_runner_up_is_said_with_its_chance(second: float, likely: str) -> None:
    found = answered(sigmoids({(8, 32): 0.7, (16, 32): second}, sd=0.01)).runner_up
    assert found is not None
    assert found.sentence == f"Runner-up: n = 16, B = 32, {likely} to end higher"
    assert found.gap == pytest.approx(0.7 - second, abs=0.01)


@pytest.mark.parametrize(
    ("wins", "gap", "although", "said"),
    [
        (0.37, 0.02, "", "37 % likely to end higher"),
        (0.51, 0.002, "", "as likely to end higher as lower"),
        (0.49, 0.002, "", "as likely to end higher as lower"),
        (0.62, 0.01, "", "62 % likely to end higher, but not on average: it would lose more than it would gain"),
        (0.7, -0.04, "its risk to collapse is 60 %", "70 % likely to end higher, but its risk to collapse is 60 %"),
    ],
)
def test_no_runner_up_is_likelier_to_end_higher_without_the_reason(
    wins: float, gap: float, although: str, said: str
) -> None:
    rival = answered(sigmoids(TOPS)).runner_up
    assert rival is not None
    assert RunnerUp(rival.choice, wins, gap, although).sentence == f"Runner-up: n = 16, B = 64, {said}"


def test_what_is_expected_to_end_higher_and_is_not_taken_says_why() -> None:
    joint, sick = sigmoids({(128, 64): 0.7, (4, 64): 0.65}, sd=0.01), Configuration(128, 64)
    known = facts(joint)
    found = answer(joint, {**known, sick: replace(known[sick], collapsed_runs=2)}, TARGET)
    assert found.runner_up is not None
    assert found.runner_up.choice.configuration == sick
    assert found.runner_up.sentence.endswith("likely to end higher, but its risk to collapse is 60.4 %, not 0.4 %")


def test_two_rollouts_of_a_prompt_are_no_edge_that_fewer_could_pass() -> None:
    assert "edge-n" not in kinds(answered(sigmoids({(2, 32): 0.8, (8, 32): 0.6})))


def test_it_is_said_where_another_budget_changes_the_choice_and_where_not() -> None:
    assert answered(sigmoids(TOPS)).at_other_budgets == "The choice is the same from ¼ to 4 × this budget"
    late = sigmoids({(8, 32): 0.7, (64, 32): 0.8}, middle={(8, 32): 1.0, (64, 32): 60.0}, sd=0.02)
    found = answered(late)
    assert found.at_other_budgets == "At 2 and 4 × this budget take n = 64, B = 32"
    assert [each.choice and each.choice.rollouts_per_prompt for each in found.budgets] == [8, 8, 8, 64, 64]


def test_the_cheapest_choice_that_is_nearly_as_good_is_enough() -> None:
    found = answered(sigmoids({(16, 32): 0.6, (64, 32): 0.7}, middle={(16, 32): 0.1, (64, 32): 5.0}))
    assert found.enough is not None
    assert found.chosen.expected_score - 0.02 <= found.enough.expected_score
    assert found.enough.gpu_hours < TARGET
    cheaper = [each.choice.expected_score for each in found.frontier if each.gpu_hours < found.enough.gpu_hours]
    assert max(cheaper) < found.chosen.expected_score - 0.02
    assert answered(sigmoids({(16, 32): 0.9}, middle=2 * TARGET)).enough is None


CAUTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"reached_gpu_hours": 4.0}, "extrapolation", "trained for 4 GPU-hours: the forecast reaches 25 × as far"),
    ({"reached_gpu_hours": 1e-6}, "extrapolation", "the forecast reaches more than 1,000 × as far"),
    (
        {"gpu_hours_per_step": 0.01},
        "epochs",
        "goes 53 times over the 6,000 prompts: 25 are known to be harmless, and d",
    ),
    ({"gpu_hours_per_step": 0.004}, "epochs", "and degradation was seen already by 100"),
    ({"collapsed_runs": 1}, "unstable", "1 of its own 2 runs collapsed"),
    ({"declining_runs": 2}, "unstable", "2 of its own 2 runs declined after a peak"),
    ({"end": ((1.0, 0.0),)}, "nothing-learnt", "no run has scored above 0: nothing has learnt"),
    ({"collapsed_runs": 2}, "collapse", "of runs near it collapse or decline, seen at n = "),
]


@pytest.mark.parametrize(("changes", "kind", "said"), CAUTIONS)
def test_each_caution_is_said_when_it_holds_and_not_else(changes: dict[str, Any], kind: str, said: str) -> None:
    joint = sigmoids(TOPS)
    assert kind not in kinds(answered(joint))
    assert said in text(answered(joint, **changes), kind)


def test_the_edge_of_the_grid_and_what_cannot_be_told_apart_are_said() -> None:
    found = answered(sigmoids({(2**k, 32): 0.6 + 0.02 * k for k in range(1, 9)}, sd=0.2))
    assert {"edge-n", "unsure"} <= kinds(found)
    assert "n = 256 is the largest of the grid: more rollouts per prompt may be better still" in text(found, "edge-n")
    assert "more pilot GPU-hours may" in text(found, "unsure")
    assert "edge-B" not in kinds(found)  # there is one B
