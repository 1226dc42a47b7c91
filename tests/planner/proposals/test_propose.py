import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import BudgetError, InputError
from budgets.signal import MeasuredPassRates
from planner.prior.draws import chances_ahead, noise_between, prior_draws
from planner.prior.laws import Circumstances, Run
from planner.proposals import Proposal, propose
from planner.proposals.pilots import PILOTS_APART
from planner.proposals.request import PricedCell, Request
from planner.rules import EXPLORED_SHARE, GridBounds, PilotRules
from tests.planner.proposals.requests import request

requests = st.builds(
    request,
    budget=st.floats(600, 3e5),
    model=st.sampled_from(["qwen2.5-1.5b", "qwen3-4b", "qwen2.5-7b", "qwen3-30b-a3b"]),
    gpu=st.sampled_from(["a100-80", "h100", "b200"]),
    gpus=st.sampled_from([16, 32, 64]),
    difficulty=st.sampled_from(["easy", "medium", "hard", "mixed"]),
    recipe=st.sampled_from(["grpo", "dapo", "scalerl", "hard"]),
    response_tokens=st.sampled_from([1024, 4096, 8192]),
    prompt_set_size=st.sampled_from([40, 500, 6000, 50_000]),
    pilots=st.builds(
        PilotRules, fraction=st.floats(0.05, 0.6), most_pilots=st.integers(2, 16), fewest_steps=st.integers(5, 100)
    ),
)


@given(requests, st.tuples(st.integers(2, 4096), st.integers(1, 4096)))
@settings(max_examples=25, deadline=None)
def test_every_proposal_keeps_its_promises_and_has_the_usual_choice_as_the_nearest_row(
    wanted: Request, usual: tuple[int, int]
) -> None:
    proposal = check_promises(replace(wanted, usual=(usual,)))
    if proposal is None:
        return

    def octaves(key: tuple[int, int]) -> float:
        return math.dist([math.log2(size) for size in key], [math.log2(size) for size in usual])

    (nearest,) = proposal.usual
    assert octaves(nearest.cell.key) == min(octaves(each.cell.key) for each in proposal.candidates)


def check_promises(wanted: Request) -> Proposal | None:
    """Hold what is proposed against the contract, and return it where the budget suffices."""
    try:
        proposal = propose(wanted)
    except BudgetError:
        return None
    budget = wanted.budget_gpu_hours
    pilots = [candidate.pilot for candidate in proposal.candidates if candidate.pilot.steps]
    assert math.fsum(pilot.gpu_hours for pilot in pilots) <= proposal.pilot_gpu_hours * (1 + 1e-12)
    assert proposal.pilot_gpu_hours + proposal.final_gpu_hours <= budget * (1 + 1e-12)
    assert len(pilots) >= 2  # one compares nothing
    assert len(pilots) <= wanted.pilots.most_pilots or wanted.pilots.cells == "all"
    assert [candidate.rank for candidate in proposal.candidates] == list(range(1, len(proposal.candidates) + 1))
    assert len({candidate.cell.configuration for candidate in proposal.candidates}) == len(proposal.candidates)
    medians = [candidate.cell.expected_score.median for candidate in proposal.candidates]
    assert medians == sorted(medians, reverse=True)
    for candidate in proposal.candidates:
        cell, cost = candidate.cell, candidate.cell.cost
        assert candidate.axes == cell.variant.axes
        assert cell.allocation.update_steps * cost.gpu_hours_per_step <= proposal.final_gpu_hours
        assert cost.gpu_hours_per_step_low < cost.gpu_hours_per_step < cost.gpu_hours_per_step_high
        assert 0 <= cell.signal_fraction <= 1
        score = cell.expected_score
        assert 0 <= score.low <= score.median <= score.high <= 1
        assert score.low < score.high
        if candidate.pilot.steps:
            assert candidate.pilot.steps >= wanted.pilots.fewest_steps
            assert 0 < candidate.pilot.segment_steps <= candidate.pilot.steps
            own = cell.pilot_cost
            used = own.start_up_gpu_hours + candidate.pilot.steps * own.gpu_hours_per_step
            assert candidate.pilot.gpu_hours == pytest.approx(used)
        else:
            assert candidate.pilot.reason.startswith("left out: ")
    return proposal


@given(requests)
@settings(max_examples=8, deadline=None)
def test_the_smallest_budget_that_a_refusal_names_suffices(wanted: Request) -> None:
    with pytest.raises(BudgetError) as refusal:
        propose(replace(wanted, budget_gpu_hours=1e-3))
    named = re.search(r"smallest budget that would do is ([\d,.]+) GPU-hours", str(refusal.value))
    assert named is not None
    smallest = float(named.group(1).replace(",", ""))
    assert any(each.pilot.steps for each in propose(replace(wanted, budget_gpu_hours=smallest)).candidates)


def test_a_share_of_nothing_is_a_plan_whose_final_run_has_the_whole_budget() -> None:
    proposal = propose(request(pilots=PilotRules(fraction=0.0)))
    assert (proposal.pilot_gpu_hours, proposal.final_gpu_hours) == (0, 5000)
    assert {c.pilot.reason for c in proposal.candidates} == {"left out: the plan has no pilots"}
    with pytest.raises(BudgetError, match=r"too few for a run of 20 updates .* smallest budget that would do is"):
        propose(request(1.0, pilots=PilotRules(fraction=0.0)))


def test_the_published_direction_holds_larger_budgets_want_larger_groups() -> None:
    outlooks = propose(request(2000.0)).outlooks
    best = [outlook.best.allocation.rollouts_per_prompt for outlook in outlooks if outlook.best]
    assert best == sorted(best)
    assert best[0] < best[-1]


def test_too_few_updates_are_noted_and_get_no_pilot() -> None:
    proposal = propose(request(560.0))
    few = [c for c in proposal.candidates if c.cell.affordable_steps < 20]
    assert few
    for candidate in few:
        assert (
            candidate.pilot.reason == f"left out: the final budget buys only {candidate.cell.affordable_steps} updates"
        )
        assert any(note.startswith("few updates") for note in candidate.notes)


def test_pilots_reach_over_the_grid_and_the_favourite_has_one() -> None:
    proposal = propose(request(20_000.0))
    chosen = [c.cell.key for c in proposal.candidates if c.pilot.steps]
    assert proposal.candidates[0].cell.key in chosen
    groups, prompts = zip(*chosen, strict=True)
    assert max(groups) / min(groups) >= 32
    assert max(prompts) / min(prompts) >= 8
    for a, b in combinations(chosen, 2):
        assert math.dist([math.log2(x) for x in a], [math.log2(x) for x in b]) >= PILOTS_APART, (a, b)


def test_a_small_prompt_set_bounds_the_batch_and_is_noted_for_its_epochs() -> None:
    proposal = propose(request(prompt_set_size=300))
    assert max(c.cell.allocation.prompts_per_batch for c in proposal.candidates) == 256
    assert any("epochs" in note for c in proposal.candidates for note in c.notes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: propose(request(grid=GridBounds(fewest_prompts_per_batch=33, most_prompts_per_batch=63))),
            r"no power of two .* widen \[grid\]",
        ),
        (
            lambda: propose(request(pass_rates=MeasuredPassRates((0.0, 0.0, 1.0)))),
            r"at most 0\.0 % of the groups carry signal .* choose prompts with pass rates",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would_do(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def chance_ahead(cell: PricedCell, other: PricedCell) -> float:
    """Return it by the prior's draws, which have the same weights for all runs of a workload."""
    run = Run(*cell.key, 1.0, Circumstances.of(cell.variant.workload))
    noise = noise_between(cell.variant.workload.pass_rates.mean)
    return float(chances_ahead(cell.scores[:, None], other.scores, prior_draws((run,)).weights, noise)[0])


def test_a_dominated_cell_names_the_cell_that_beats_it() -> None:
    proposal = propose(request())
    cells = {candidate.cell.key: candidate.cell for candidate in proposal.candidates}
    pattern = re.compile(r"left out: n = (\d+), B = (\d+) costs no more")
    dominated = [(c, m) for c in proposal.candidates if (m := pattern.match(c.pilot.reason))]
    assert dominated
    for candidate, match in dominated:
        better = cells[int(match[1]), int(match[2])]
        assert better.cost.gpu_hours_per_step <= 1.01 * candidate.cell.cost.gpu_hours_per_step
        assert chance_ahead(candidate.cell, better) < 0.05


def test_a_full_grid_has_a_pilot_in_every_cell_with_signal_while_the_budget_pays_for_its_least_one() -> None:
    wanted = request(200_000, difficulty="easy", pilots=PilotRules(fraction=0.2, cells="all", fewest_steps=5))
    proposal = propose(wanted)
    assert all(candidate.pilot.steps > 0 for candidate in proposal.candidates if candidate.cell.signal_fraction > 0.05)
    assert sum(candidate.pilot.gpu_hours for candidate in proposal.candidates) <= proposal.pilot_gpu_hours
    poorer = propose(replace(wanted, budget_gpu_hours=2_000.0))
    assert 2 <= sum(candidate.pilot.steps > 0 for candidate in poorer.candidates) < len(poorer.candidates)


def test_a_run_that_stops_early_stops_on_other_gpus_too_and_its_standing_is_noted() -> None:
    proposal = propose(request(100_000.0))
    first = proposal.candidates[0]
    assert first.cell.allocation.update_steps < first.cell.affordable_steps
    assert len(proposal.layouts) > 1
    assert {each.update_steps for each in proposal.layouts} == {first.cell.allocation.update_steps}
    assert all("level with the first" in each.notes for each in proposal.level[1:])
    assert [each.cell.key for each in proposal.usual] == [(8, 64), (8, 128)]
    assert all(any(note.startswith("a usual choice") for note in each.notes) for each in proposal.usual)


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
