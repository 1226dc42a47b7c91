"""How many GPUs a pilot gets."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import BudgetError, InputError
from budgets.memory import fewest_gpus
from planner.proposals import Proposal, Request, propose
from planner.proposals.grid import price_cells
from planner.proposals.layouts import legal_layouts, with_layout
from planner.rules import GridBounds, PilotRules
from tests.planner.proposals.requests import request


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [
        ({}, 4),  # sixteen side by side, on half a node each
        ({"gpus": 1, "model": "qwen3-1.7b"}, 1),
        ({"gpus_per_trial": 4}, 4),
        ({"model": "qwen3-32b", "response_tokens": 16_384, "difficulty": "hard", "recipe": "hard"}, 16),
        ({"recipe": "scalerl"}, 8),  # one node, of which half trains: so is the final run, at nearly its best price
        ({"pilots": PilotRules(fraction=0.0)}, 64),
        ({"pilots": PilotRules(gpus=32)}, 32),
    ],
)
def test_a_layout_is_near_the_best_price_and_legal(wanted: dict[str, Any], gpus: int) -> None:
    assert with_layout(request(**wanted)).pilots.gpus == gpus


@pytest.mark.parametrize(
    ("given", "wanted", "nearest"),
    [
        (1, {}, "4"),
        (3, {}, "4"),
        (12, {}, "16"),
        (80, {}, "64"),
        (24, {"recipe": "scalerl"}, "32"),
        (16, {"gpus_per_trial": 8}, "8"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_with_the_nearest_that_can(
    given: int, wanted: dict[str, Any], nearest: str
) -> None:
    with pytest.raises(InputError, match=rf"--pilot-gpus {given}: .* nearest that will do is {nearest}$"):
        propose(request(pilots=PilotRules(gpus=given), **wanted))


@settings(max_examples=12, deadline=None)
@given(
    model=st.sampled_from(["qwen3-1.7b", "qwen3-8b", "qwen3-32b"]),
    recipe=st.sampled_from(["easy", "hard", "scalerl"]),
    gpus=st.sampled_from([8, 16, 24, 64]),
    per_node=st.sampled_from([4, 8]),
)
def test_pilots_fit_keep_the_ratio_and_leave_no_places_over(model: str, recipe: str, gpus: int, per_node: int) -> None:
    asked = request(model=model, recipe=recipe, gpus=gpus)
    gpu = replace(asked.hardware.gpu, gpus_per_node=per_node)
    asked = replace(asked, hardware=replace(asked.hardware, gpu=gpu))
    fewest = fewest_gpus(asked.workload, asked.traits, gpu)
    if fewest is None or fewest > gpus:
        return
    decided = with_layout(asked)
    own = decided.pilot_hardware.gpus_per_trial
    assert own in legal_layouts(asked)
    assert fewest <= own
    assert gpus % own == 0
    assert own == gpus or per_node % own == 0 or own % per_node == 0
    for cell in price_cells(decided):
        pilot, final = cell.pilot_cost.placement, cell.cost.placement
        assert (pilot.gpus, final.gpus) == (own, gpus)
        assert pilot.generator_gpus * final.trainer_gpus == pilot.trainer_gpus * final.generator_gpus


SMALL = GridBounds(most_rollouts_per_prompt=64, most_prompts_per_batch=256)  # fewer cells, to be quick


def open_request(budget: float = 5000.0, *, within: float | None = None, recipe: str = "easy") -> Request:
    asked = request(budget, pilots=PilotRules(), recipe=recipe)
    return replace(asked, chooses_gpus=True, within_hours=within)


@cache
def proposed(recipe: str = "easy") -> Proposal:
    """What is proposed without a deadline, for several tests to look at."""
    return propose(open_request(recipe=recipe))


def final_hours(proposal: Proposal) -> float:
    first = proposal.candidates[0].cell
    return first.gpu_hours / first.cost.placement.gpus


def wall_hours(proposal: Proposal) -> float:
    return proposal.pilot_wall_hours + final_hours(proposal)


@pytest.mark.parametrize("recipe", ["easy", "scalerl"])
def test_the_layout_that_is_chosen_ends_no_lower_than_others_that_end_within_a_week(recipe: str) -> None:
    proposal = proposed(recipe)
    chosen = proposal.request.hardware.gpus_per_trial
    others = {
        gpus: propose(replace(open_request(recipe=recipe), chooses_gpus=False, hardware=hardware))
        for gpus in (each.gpus_per_trial for each in proposal.layouts)
        for hardware in (replace(proposal.request.hardware, gpus_per_trial=gpus),)
    }
    soon = {gpus: each for gpus, each in others.items() if final_hours(each) <= 168}

    scores = {gpus: each.candidates[0].cell.expected_score.median for gpus, each in soon.items()}

    assert max(scores.values()) - scores[chosen] < 0.005


def test_without_a_layout_that_ends_within_a_week_the_fastest_is_taken() -> None:
    proposal = propose(open_request(40_000.0))

    assert proposal.request.hardware.gpus_per_trial == 64
    assert [each.final_wall_hours for each in proposal.layouts] == sorted(
        each.final_wall_hours for each in proposal.layouts
    )


def test_pilots_and_final_run_end_by_the_deadline_and_a_nearer_one_costs_more() -> None:
    scores = []
    for within in (48.0, 120.0, 2000.0):
        proposal = propose(open_request(within=within))
        deadline, first = proposal.deadline, proposal.candidates[0].cell
        assert deadline is not None
        assert wall_hours(proposal) <= within * (1 + 1e-9)
        assert deadline.takes_hours == pytest.approx(wall_hours(proposal))
        assert first.gpu_hours <= proposal.final_gpu_hours * (1 + 1e-9)
        assert proposal.final_gpu_hours + proposal.pilot_gpu_hours <= 5000.0 * (1 + 1e-9)
        assert deadline.cost == pytest.approx(max(0.0, deadline.score_without - deadline.expected_score))
        assert deadline.cost < 0.005 if within == 2000.0 else deadline.unspent_gpu_hours > 300
        scores.append(deadline.expected_score)
    assert scores == sorted(scores)


@pytest.mark.parametrize(
    "machine",
    [{"grid": SMALL}, {"model": "qwen2.5-7b", "gpus": 2, "response_tokens": 2048}],
    ids=["with room", "one that training nearly fills"],
)
def test_a_deadline_that_nothing_meets_is_refused_with_one_that_will_do(machine: dict[str, Any]) -> None:
    asked = replace(request(pilots=PilotRules(), **machine), chooses_gpus=True)
    with pytest.raises(BudgetError, match=r"h100 cannot do pilots .* in 1 h. Give --within \d+h or more") as refused:
        propose(replace(asked, within_hours=1.0))
    hours = float(str(refused.value).split("--within ")[1].split("h")[0])

    assert wall_hours(propose(replace(asked, within_hours=hours))) <= hours


def test_a_price_that_is_known_leaves_no_doubt() -> None:
    asked = open_request()
    sure = replace(
        asked.coefficients,
        log_covariance=dict.fromkeys(asked.coefficients.log_covariance, 0.0),
        length_log_sd=0.0,
        unmodelled_log_sd=0.0,
    )
    doubt = propose(replace(asked, coefficients=sure)).doubt

    assert doubt.most_steps / doubt.fewest_steps < 1.25
    assert doubt.firm >= 5
