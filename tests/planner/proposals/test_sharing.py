from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from budgets.errors import BudgetError
from planner.proposals import Proposal, propose
from planner.rules import EXPLORED_SHARE, PilotRules
from tests.planner.proposals.requests import request

AUTO = PilotRules()


def piloted(proposal: Proposal) -> int:
    return sum(each.pilot.steps > 0 for each in proposal.candidates)


def test_who_explores_gets_a_comparison_and_who_gives_a_share_gets_that() -> None:
    auto = propose(request(5000.0, pilots=AUTO))
    assert (auto.pilot_gpu_hours, piloted(auto) >= 2) == (EXPLORED_SHARE * 5000, True)
    assert propose(request(1000.0, pilots=PilotRules(fraction=0.4))).pilot_gpu_hours == 400
    assert piloted(propose(request(5000.0, pilots=PilotRules(fraction=0.0)))) == 0


def test_a_comparison_that_the_studies_say_nothing_of_has_two_pilots() -> None:
    one = request(5000.0, pilots=AUTO)
    variants = tuple(replace(one.all_variants[0], axes=(("recipe", name),)) for name in ("easy", "dapo"))
    assert piloted(propose(replace(one, variants=variants))) >= 2
    assert piloted(propose(replace(one, learning_rate_range=(0.3, 3.0)))) >= 2


def test_a_budget_that_pays_for_no_comparison_is_refused_with_the_smallest_that_does() -> None:
    with pytest.raises(BudgetError, match=r"too few for any comparison.*smallest budget that would"):
        propose(request(50.0, pilots=AUTO))


@pytest.mark.parametrize("budget", [2000.0, 5000.0, 20_000.0])
def test_no_pilot_takes_longer_than_a_tenth_of_the_final_run(budget: float) -> None:
    proposal = propose(request(budget, pilots=AUTO, gpus=64))
    on, final = proposal.request.pilot_hardware.gpus_per_trial, proposal.request.hardware.gpus_per_trial
    longest = max(row.pilot.gpu_hours for row in proposal.candidates) / on
    assert longest <= 0.1 * proposal.final_gpu_hours / final


@pytest.mark.parametrize("changes", [{}, {"gpus_per_trial": 8, "difficulty": "hard", "model": "qwen2.5-1.5b"}])
def test_a_larger_budget_is_never_expected_to_end_lower(changes: dict[str, Any]) -> None:
    budgets = [2000.0 * 3.0**power for power in range(5)]
    scores = [propose(request(budget, pilots=AUTO, **changes)).candidates[0].cell.expected for budget in budgets]
    assert all(later >= earlier for earlier, later in pairwise(scores))
