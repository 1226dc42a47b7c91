"""How many GPUs the final run gets, what a deadline costs, and what the price's interval means."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from budgets.errors import BudgetError
from planner.proposals import Proposal, Request, propose
from planner.rules import GridBounds, PilotRules
from tests.planner.proposals.requests import request

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
    for within in (24.0, 120.0, 2000.0):
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
    asked = replace(request(pilots=PilotRules(), **machine), chooses_gpus=True, requires_pilots=True)
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
