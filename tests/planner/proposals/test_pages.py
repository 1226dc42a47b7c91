"""Nothing that one plan says contradicts another thing that it says, nor what the next larger budget's says."""

import math
from itertools import pairwise

import pytest

from budgets.errors import BudgetError
from planner.config import build_request, flag_layer, resolve
from planner.prior.draws import LEAST_CHANCE_AHEAD, chances_ahead, noise_between
from planner.proposals import Proposal, propose
from planner.proposals.split import ALIKE

BUDGETS = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
MACHINES = (("qwen3-4b", 8), ("qwen3-8b", 64), ("llama-3.1-70b", 128))
RATES = (0.15, 0.45, 0.8)


def planned(budget: float, model: str, gpus: int, rate: float, *, explore: bool = True) -> Proposal | None:
    """Return the plan as the command line makes it; None where the budget is too small."""
    given = {
        "budget.gpu_hours": ("--budget", budget),
        "workload.model": ("--model", model),
        "hardware.gpus": ("--gpus", gpus),
        "workload.pass_rate": ("--pass-rate", rate),
        "proposal.explore": ("--explore", explore),
    }
    try:
        return propose(build_request(resolve(flag_layer(given))))
    except BudgetError:
        return None


def check_rows(plan: Proposal) -> None:
    """Rank, expected score, interval, level and usual choices are of one ranking."""
    first, cells = plan.candidates[0], [each.cell for each in plan.candidates]
    assert [each.rank for each in plan.candidates] == list(range(1, len(cells) + 1))
    assert all(a.expected >= b.expected for a, b in pairwise(cells))
    assert first in plan.level
    assert {each.standing.usual for each in plan.usual} <= set(plan.request.usual)
    assert plan.usual
    noise = noise_between(first.cell.variant.workload.pass_rates.mean)
    for each in plan.candidates:
        score, standing = each.cell.expected_score, each.standing
        assert 0 <= score.low <= score.median <= score.high <= 1
        assert standing.median == pytest.approx(score.median - first.cell.expected, abs=1e-6)
        assert standing.low <= standing.median <= standing.high
        ahead = chances_ahead(each.cell.scores[:, None], first.cell.scores, each.cell.weights, noise)[0]
        assert standing.level == (ahead >= LEAST_CHANCE_AHEAD)
        assert ("level with the first" in each.notes) == (standing.level and each.rank > 1)


def check_money(plan: Proposal) -> None:
    """Pilots and final run fit the budget, and the share that is said is the one that was taken."""
    budget, fraction = plan.request.budget_gpu_hours, plan.request.pilot_fraction
    pilots = [each for each in plan.candidates if each.pilot.steps]
    assert plan.pilot_gpu_hours == pytest.approx(fraction * budget)
    assert plan.pilot_gpu_hours + plan.final_gpu_hours <= budget * (1 + 1e-9)
    assert math.fsum(each.pilot.gpu_hours for each in pilots) <= plan.pilot_gpu_hours * (1 + 1e-9)
    assert all(each.cell.gpu_hours <= plan.final_gpu_hours * (1 + 1e-9) for each in plan.candidates)
    assert all(0 < each.pilot.segment_steps <= each.pilot.steps for each in pilots)
    assert bool(pilots) == (fraction > 0)


def check_elsewhere(plan: Proposal) -> None:
    """The rows of other budgets, layouts, studies and prices say of this plan what its first row says."""
    first, doubt = plan.candidates[0].cell, plan.doubt
    (same,) = (each.best for each in plan.outlooks if each.factor == 1)
    assert same == first
    known = [each.best.expected for each in plan.outlooks if each.best is not None]
    assert all(later >= earlier for earlier, later in pairwise(known))
    (chosen,) = (each for each in plan.layouts if each.chosen)
    assert chosen.update_steps == first.allocation.update_steps
    assert chosen.gpu_hours_per_step == pytest.approx(first.cost.gpu_hours_per_step)
    assert chosen.final_wall_hours * chosen.gpus_per_trial == pytest.approx(first.gpu_hours)
    assert math.fsum(each.weight for each in plan.grounds) == pytest.approx(1)
    keys = {each.cell.key for each in plan.candidates}
    assert {(each.rollouts_per_prompt, each.prompts_per_batch) for each in plan.grounds} <= keys
    assert doubt.fewest_steps <= first.allocation.update_steps <= doubt.most_steps
    assert (doubt.firm == 0) == (doubt.lost > ALIKE)
    if first.configuration == doubt.first_if_dear == doubt.first_if_cheap:
        assert doubt.lost <= 0


def check(plan: Proposal) -> None:
    check_rows(plan)
    check_money(plan)
    check_elsewhere(plan)


@pytest.mark.parametrize("given", [(2_000, "qwen3-4b", 8), (1_500, "qwen3-8b", 64), (5_000, "qwen3-8b", 64)])
def test_nothing_on_a_page_contradicts_another(given: tuple[float, str, int]) -> None:
    plan = planned(*given, rate=0.45)
    assert plan is not None
    check(plan)


@pytest.mark.parametrize("given", [(2_000, "qwen3-4b", 8), (5_000, "qwen3-8b", 64)])
def test_a_champion_s_money_is_what_its_page_says(given: tuple[float, str, int]) -> None:
    plan = planned(*given, rate=0.45, explore=False)
    assert plan is not None
    champion, budget = plan.champion, plan.request.budget_gpu_hours
    assert champion is not None
    assert plan.pilot_gpu_hours == pytest.approx(champion.terms.challenger_share * budget)
    assert plan.pilot_gpu_hours + plan.final_gpu_hours <= budget * (1 + 1e-9)
    assert math.fsum(row.pilot.gpu_hours for row in plan.candidates) <= plan.pilot_gpu_hours * (1 + 1e-9)
    assert champion.row.pilot.steps > 0 == champion.row.pilot.gpu_hours


@pytest.mark.soak
@pytest.mark.parametrize(("model", "gpus"), MACHINES)
@pytest.mark.parametrize("rate", RATES)
def test_nothing_on_sixty_pages_contradicts_another(model: str, gpus: int, rate: float) -> None:
    plans = [planned(budget, model, gpus, rate) for budget in BUDGETS]
    made = [plan for plan in plans if plan is not None]
    assert plans[-len(made) :] == made  # what a budget pays for, a larger one does
    for plan in made:
        check(plan)
    for smaller, larger in pairwise(made):
        assert larger.candidates[0].cell.expected >= smaller.candidates[0].cell.expected
