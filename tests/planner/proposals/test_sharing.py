from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import BudgetError
from planner.prior.draws import PriorDraws
from planner.prior.laws import Circumstances, Run
from planner.prior.value import ObservedPilot, Worth, worth_of
from planner.proposals import PilotShare, Proposal, propose
from planner.proposals.sharing import ALIKE
from planner.rules import PilotRules
from tests.planner.proposals.requests import request

AUTO = PilotRules()


def shared(budget: float, rules: PilotRules = AUTO, **changes: Any) -> PilotShare:
    return propose(request(budget, pilots=rules, **changes)).sharing


def piloted(proposal: Proposal) -> int:
    return sum(each.pilot.steps > 0 for each in proposal.candidates)


def test_the_share_is_the_smallest_that_is_worth_as_much_as_any() -> None:
    chosen = shared(50_000.0)
    assert chosen.expected_gain > 2 * chosen.error > 0
    for fraction in (0.0, 0.05, 0.2, 0.4):
        given = shared(50_000.0, PilotRules(fraction=fraction))
        assert given.given
        assert given.expected_score <= chosen.expected_score + 2 * chosen.error
        assert given.score_without == pytest.approx(chosen.score_without, abs=0.005)  # pilots may get other GPUs


def test_the_first_row_has_a_pilot_wherever_one_fits_and_a_plan_without_says_so() -> None:
    for budget in (500.0, 1000.0, 2000.0, 5000.0, 20_000.0):
        proposal = propose(request(budget, pilots=AUTO))
        assert proposal.candidates[0].pilot.steps > 0
        assert proposal.sharing.expected_gain >= -ALIKE
    none = propose(request(50.0, pilots=AUTO))
    assert (none.sharing.fraction, none.sharing.best_fraction, piloted(none)) == (0, 0, 0)


def test_a_pilot_on_the_final_runs_gpus_costs_nothing_for_that_run_goes_on_from_it() -> None:
    alone = propose(request(700.0, pilots=AUTO))
    assert (alone.request.continues_pilot, piloted(alone)) == (True, 1)
    assert alone.sharing.expected_gain == pytest.approx(0.0, abs=ALIKE / 4)
    elsewhere = propose(request(700.0, pilots=PilotRules(fraction=alone.sharing.fraction, gpus=4)))
    assert not elsewhere.request.continues_pilot
    assert elsewhere.sharing.expected_score < alone.sharing.expected_score


def test_who_asks_for_a_sweep_gets_a_comparison_and_who_gives_a_share_gets_that() -> None:
    assert piloted(propose(replace(request(1000.0, pilots=AUTO), requires_pilots=True))) >= 2
    given = propose(request(1000.0, pilots=PilotRules(fraction=0.4)))
    assert (given.pilot_gpu_hours, given.sharing.fraction) == (400, 0.4)
    assert given.sharing.best_fraction < 0.4


def test_a_comparison_that_the_studies_say_nothing_of_has_two_pilots() -> None:
    one = request(5000.0, pilots=AUTO)
    variants = tuple(replace(one.all_variants[0], axes=(("recipe", name),)) for name in ("easy", "dapo"))
    compared = propose(replace(one, variants=variants))
    assert piloted(compared) >= 2
    assert compared.sharing.worth > propose(one).sharing.worth
    assert piloted(propose(replace(one, learning_rate_range=(0.3, 3.0)))) >= 2


def test_a_budget_that_pays_for_no_comparison_is_refused_where_one_is_asked_for() -> None:
    with pytest.raises(BudgetError, match=r"too few for any comparison.*smallest budget that would"):
        propose(replace(request(50.0, pilots=AUTO), requires_pilots=True))


@pytest.mark.parametrize("changes", [{}, {"gpus_per_trial": 8, "difficulty": "hard", "model": "qwen2.5-1.5b"}])
def test_a_larger_budget_is_never_expected_to_end_lower_whatever_its_share(changes: dict[str, Any]) -> None:
    told = [shared(600.0 * 3.0**power, **changes) for power in range(6)]
    assert all(each.expected_score >= each.score_without - ALIKE for each in told)
    assert all(later.score_without >= earlier.score_without for earlier, later in pairwise(told))
    # What pilots are worth is a mean of draws, each of which may be off by a few thousandths.
    assert all(later.expected_score >= earlier.expected_score - 0.003 for earlier, later in pairwise(told))


HERE = Circumstances(8e9, False, 8192, 0.45, 100_000)
CELLS = [(8, 64), (16, 32), (16, 128), (32, 32), (64, 64), (256, 32)]


@pytest.fixture(scope="module")
def prior() -> PriorDraws:
    return PriorDraws([Run(*cell, 0.99, HERE) for cell in CELLS])


def worth(
    prior: PriorDraws, piloted: list[int], *, steps: int = 100, answers: int = 1200, wider: float = 1.0, worse: int = 0
) -> Worth:
    """Return it of pilots of some cells; `wider` pulls the draws apart, `worse` cells are added that cannot win."""
    places = list(range(len(CELLS)))
    finals = prior.expected(places, [2000] * len(CELLS)).scores
    means = prior.weights @ finals
    finals = means.max() + wider * (finals - means.max())
    finals = np.concatenate([finals, np.repeat(finals.min(axis=1, keepdims=True) - 0.1, worse, axis=1)], axis=1)
    along = np.linspace(10, steps, 10)
    pilots = [ObservedPilot(cell, prior.at([cell] * len(along), along), HERE.pass_rate, answers) for cell in piloted]
    return worth_of(finals.astype(np.float32), prior.weights, pilots, prior.folds)


@given(st.lists(st.sampled_from(range(len(CELLS))), unique=True), st.integers(20, 1500), st.integers(10, 100_000))
@settings(max_examples=15, deadline=None)
def test_free_information_is_never_harmful(prior: PriorDraws, piloted: list[int], steps: int, answers: int) -> None:
    found = worth(prior, piloted, steps=steps, answers=answers)
    assert 0 <= found.gain < 0.1
    assert found.error < 0.003


def test_pilots_that_see_nothing_are_worth_nothing_and_sharper_and_longer_ones_more(prior: PriorDraws) -> None:
    blind, short, long = (
        worth(prior, [0, 3, 5], steps=steps, answers=answers).gain
        for steps, answers in ((3, 2), (100, 1200), (1500, 12_000))
    )
    assert blind < 0.0005
    assert long > short > blind


def test_cells_that_cannot_win_change_nothing_and_a_wider_prior_is_worth_more(prior: PriorDraws) -> None:
    plain = worth(prior, [0, 3, 5], steps=500).gain
    assert worth(prior, [0, 3, 5], steps=500, worse=30).gain == pytest.approx(plain, abs=1e-4)
    assert worth(prior, [0, 3, 5], steps=500, wider=2.0).gain > 1.5 * plain
