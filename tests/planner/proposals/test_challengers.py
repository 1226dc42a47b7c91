"""A champion's plan: which row starts, what challengers cost, and what may be asked of it."""

from dataclasses import replace
from typing import Any

import pytest

from budgets.errors import BudgetError, InputError
from planner.config import build_request
from planner.policy.champion import champion_data, champion_of
from planner.proposals import Proposal, Request, propose
from planner.proposals.proposal import ChampionPlan
from planner.proposals.request import ChampionChoice
from planner.rules import PilotRules
from planner.view import Configuration
from rlplan.actions.configuration import load_configuration
from tests.planner.proposals.requests import request

SIZES = ((8, 64), (32, 32), (4, 512), (12, 96))


def with_champion(sizes: tuple[int, int] = (8, 64), share: float = 0.05, source: str = "flag", **more: Any) -> Request:
    asked = request(gpus_per_trial=32, pilots=PilotRules(fraction=share))
    return replace(asked, champion=ChampionChoice(sizes, source, **more))


def plan_of(asked: Request) -> tuple[Proposal, ChampionPlan]:
    proposal = propose(asked)
    assert proposal.champion is not None
    return proposal, proposal.champion


@pytest.mark.parametrize("sizes", SIZES)
def test_the_champion_is_a_row_whose_own_run_costs_no_pilot_and_challengers_stay_within_their_share(
    sizes: tuple[int, int],
) -> None:
    proposal, champion = plan_of(with_champion(sizes))
    assert champion.row.cell.key == sizes
    assert champion.row.pilot.steps > 0 == champion.row.pilot.gpu_hours
    assert 0.8 * 250 < champion.look_gpu_hours <= 250  # a twentieth of all GPU-hours, in whole validations
    assert champion.challengers
    spent = sum(row.pilot.gpu_hours for row in proposal.candidates)
    assert spent == sum(row.pilot.gpu_hours for row in champion.challengers) <= proposal.pilot_gpu_hours == 250
    assert proposal.final_gpu_hours == 4750
    for row in proposal.candidates:
        assert row.cell.allocation.update_steps * row.cell.cost.gpu_hours_per_step <= proposal.final_gpu_hours
    assert proposal.request.pilot_hardware == proposal.request.hardware


def test_the_first_challenger_is_the_usual_choice_where_the_champion_is_far_from_it() -> None:
    assert [row.cell.key for row in plan_of(with_champion((4, 512)))[1].challengers] == [(8, 64)]
    near = plan_of(with_champion((8, 32)))[1]
    assert (8, 64) not in [row.cell.key for row in near.challengers]
    assert near.usual.cell.key == (8, 64)


def test_studies_that_are_sure_of_the_usual_choice_say_so_before_anything_is_spent() -> None:
    ahead = plan_of(with_champion((2, 2)))[1].usual_ahead
    assert ahead is not None
    assert ahead.chance > 0.84
    assert plan_of(with_champion((16, 32)))[1].usual_ahead is None
    assert plan_of(with_champion())[1].usual_ahead is None


def test_alone_has_no_challenger_and_all_gpu_hours() -> None:
    proposal, champion = plan_of(with_champion(share=0.0))
    assert champion.terms.alone
    assert (champion.challengers, proposal.pilot_gpu_hours, proposal.final_gpu_hours) == ((), 0, 5000)


def test_alone_at_a_rate_far_from_the_rules_is_a_plan_too() -> None:
    champion = plan_of(with_champion((8, 64), rate_factor=0.1, share=0.0))[1]
    assert champion.row.cell.configuration == Configuration(8, 64, (("learning_rate", 0.1),))
    assert champion.challengers == ()


def test_a_larger_share_pays_for_more_challengers() -> None:
    champion = plan_of(with_champion(share=0.2))[1]
    assert len(champion.challengers) >= 3
    assert all(row.against_champion and row.against_champion.chance >= 0.25 for row in champion.challengers)


def test_a_rate_far_from_the_rules_is_the_champions_own_and_the_rules_challenges_it() -> None:
    proposal, champion = plan_of(with_champion((8, 64), rate_factor=0.1))
    assert champion.row.cell.configuration == Configuration(8, 64, (("learning_rate", 0.1),))
    assert champion.usual.cell.configuration == Configuration(8, 64)
    assert champion.row.learning_rate == pytest.approx(0.1 * champion.usual.learning_rate)
    assert champion.usual in champion.challengers
    factors = {dict(row.axes).get("learning_rate", 1) for row in proposal.candidates if row.cell.key == (8, 64)}
    assert factors == {0.1, 0.0333, 0.3, 1}


def test_what_a_plan_stores_is_what_a_policy_sees() -> None:
    _, champion = plan_of(with_champion((16, 32)))
    stored = {"champion": champion_data(champion.terms, champion.source)}
    assert champion_of(stored, 5000) == champion.terms
    assert champion.terms.usual == (Configuration(8, 64),)


def asked(**flags: Any) -> Request:
    given = {
        "budget.gpu_hours": ("--budget", 5000.0),
        **{name.replace("__", "."): ("--x", flags[name]) for name in flags},
    }
    return build_request(load_configuration(flags=given))


def test_the_champion_is_the_users_or_the_usual_one_and_there_is_none_where_the_grid_is_explored() -> None:
    assert asked().champion == ChampionChoice((8, 64), "usual")
    assert asked(proposal__baseline="n=16,B=32").champion == ChampionChoice((16, 32), "flag")
    assert asked(proposal__baseline="n=16,B=32", proposal__advised=True).champion == ChampionChoice((8, 64), "advised")
    assert asked(proposal__explore=True).champion is None
    assert asked(axes__learning_rate_range=[0.3, 3.0]).champion is None
    assert asked(proposal__alone=True).pilots.fraction == 0
    assert asked(pilot__fraction=0.1).pilots.fraction == 0.1
    task = build_request(load_configuration(task="sum-easy", flags={"budget.gpu_hours": ("--budget", 0.5)}))
    assert task.pilots.fraction == 0.05  # a task's share is for who explores


def test_base_models_are_candidates_and_each_of_them_is_looked_at() -> None:
    _, champion = plan_of(asked(axes__models=["qwen3-4b", "qwen3-8b"], hardware__gpus_per_trial=32))
    assert [dict(each.axes)["model"] for each in champion.terms.candidates] == ["qwen3-4b", "qwen3-8b"]
    assert [row.cell.configuration for row in champion.challengers] == [champion.terms.candidates[1]]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"proposal__explore": True, "proposal__alone": True}, "--explore has no champion: leave out --alone"),
        ({"proposal__alone": True, "pilot__fraction": 0.1}, "--alone and --pilot-fraction 0.1: leave one of them out"),
        ({"proposal__baseline": "n=4,B=8192"}, "--champion n=4,B=8192: a batch of 8,192 prompts, from a set of 6,000"),
        ({"pilot__gpus": 4, "hardware__gpus_per_trial": 32}, "train on the 32 GPUs of the final run. Leave it out"),
    ],
)
def test_what_contradicts_a_champion_is_refused(flags: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        propose(asked(**flags))


def test_a_budget_that_buys_the_champion_no_run_is_refused_with_the_smallest_that_does() -> None:
    with pytest.raises(BudgetError, match=r"20 updates of n = 8, B = 64. The smallest budget that would do is"):
        propose(replace(with_champion(), budget_gpu_hours=5))
