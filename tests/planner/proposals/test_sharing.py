from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from budgets.errors import BudgetError
from planner.proposals import PilotRules, Proposal, Sharing, propose
from planner.proposals.sharing import ALIKE
from tests.planner.proposals.requests import request

AUTO, ASKED = PilotRules(), PilotRules(required=True)


def shared(budget: float, rules: PilotRules = AUTO, **changes: Any) -> Sharing:
    return propose(request(budget, pilots=rules, **changes)).sharing


def piloted(proposal: Proposal) -> int:
    return sum(each.pilot.steps > 0 for each in proposal.candidates)


def test_where_pilots_pay_the_share_is_the_smallest_that_is_expected_to_end_as_high_as_any() -> None:
    chosen = shared(50_000.0)
    assert chosen.fraction > 0
    assert chosen.pays
    assert chosen.pays_from is None
    for fraction in (0.0, 0.05, 0.2, 0.4):
        given = shared(50_000.0, PilotRules(fraction=fraction))
        assert given.given
        assert given.expected_score <= chosen.expected_score + ALIKE
        assert given.score_without == chosen.score_without
        if 0 < fraction < chosen.fraction:
            assert given.expected_score < chosen.expected_score


def test_where_they_do_not_the_final_run_has_the_whole_budget_until_one_at_which_they_do() -> None:
    proposal = propose(request(1000.0, pilots=AUTO))
    sharing = proposal.sharing
    assert (sharing.fraction, proposal.pilot_gpu_hours, proposal.final_gpu_hours, piloted(proposal)) == (0, 0, 1000, 0)
    assert sharing.expected_score == sharing.score_without == proposal.candidates[0].cell.expected_score.median
    assert sharing.best_score < sharing.score_without
    assert sharing.pays_from is not None
    assert sharing.pays_from > 1000
    assert shared(sharing.pays_from).fraction > 0
    assert shared(0.8 * sharing.pays_from).fraction == 0


def test_who_asks_for_a_sweep_gets_pilots_and_who_gives_a_share_gets_that() -> None:
    asked = propose(request(1000.0, pilots=ASKED))
    assert piloted(asked) >= 2
    assert not asked.sharing.best_pays
    assert asked.sharing.fraction == asked.sharing.best_fraction
    given = propose(request(1000.0, pilots=PilotRules(fraction=0.4)))
    assert given.pilot_gpu_hours == 400
    assert given.sharing.pays_from == asked.sharing.pays_from


def test_a_comparison_that_the_studies_say_nothing_of_has_pilots() -> None:
    one = request(5000.0, pilots=AUTO)
    assert propose(one).sharing.fraction == 0
    variants = tuple(replace(one.all_variants[0], axes=(("recipe", name),)) for name in ("easy", "dapo"))
    assert piloted(propose(replace(one, variants=variants))) >= 2
    assert piloted(propose(replace(one, learning_rate_range=(0.3, 3.0)))) >= 2


@pytest.mark.parametrize("rules", [AUTO, ASKED])
def test_a_budget_that_pays_for_no_comparison_is_refused_as_before(rules: PilotRules) -> None:
    with pytest.raises(BudgetError, match=r"too few for any comparison.*smallest budget that would"):
        propose(request(50.0, pilots=rules))


@pytest.mark.parametrize("changes", [{}, {"gpus_per_trial": 8, "difficulty": "hard", "model": "qwen2.5-1.5b"}])
def test_a_larger_budget_is_never_expected_to_end_lower_whatever_its_share(changes: dict[str, Any]) -> None:
    told = [shared(600.0 * 3.0**power, **changes) for power in range(6)]
    assert all(each.expected_score >= each.score_without for each in told)
    assert all(later.score_without >= earlier.score_without for earlier, later in pairwise(told))
    # What pilots are worth is a mean of draws, each of which may be off by a few thousandths.
    assert all(later.expected_score >= earlier.expected_score - 0.003 for earlier, later in pairwise(told))
