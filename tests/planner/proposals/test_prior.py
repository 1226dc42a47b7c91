"""The first row is tried at another learning rate too, where nobody gave one."""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.signal import BetaPassRates
from planner.config import build_request, flag_layer, resolve
from planner.prior.draws import distance, weights_of
from planner.prior.laws import Circumstances, Run
from planner.prior.plan_prior import Priced, at_rate, prior_of_plan
from planner.prior.studies import STUDIES, published_group
from planner.proposals import Candidate, Proposal, Request, propose
from planner.proposals.grid import PricedGrid, price_cells
from planner.proposals.request import TRIED_RATES
from planner.rules import GridBounds, PilotRules
from tests.planner.proposals.requests import request

STEP = 0.01  # of the score, for twice the budget or a neighbouring workload
MODELS = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b", "qwen2.5-72b")


@pytest.mark.parametrize(
    ("base", "rollouts", "published"),
    # The table of n* at given compute that was computed from the fits' constants, all of n, B and M free.
    [(0.45, 1e5, 8), (0.45, 1e6, 31), (0.45, 1e7, 430), (0.03, 1e6, 8), (0.03, 1e7, 129)],
)
def test_the_law_of_the_optimal_group_gives_the_published_values(
    base: float, rollouts: float, published: float
) -> None:
    assert published_group(base, rollouts) == pytest.approx(published, rel=0.06)


SMALL_GRID = GridBounds(
    fewest_rollouts_per_prompt=2,
    most_rollouts_per_prompt=256,
    fewest_prompts_per_batch=1,
    most_prompts_per_batch=256,
    fewest_rollouts_per_step=16,
    most_rollouts_per_step=8192,
)
requests = st.builds(
    request,
    model=st.sampled_from([*MODELS, "qwen3-30b-a3b"]),
    gpus=st.just(64),
    recipe=st.sampled_from(["grpo", "dapo", "hard"]),
    response_tokens=st.sampled_from([512, 1024, 4096, 16_384, 32_000]),
    prompt_set_size=st.sampled_from([40, 500, 6000, 1_000_000]),
    pass_rates=st.builds(BetaPassRates, st.floats(0.02, 0.98)),
    grid=st.sampled_from([GridBounds(), SMALL_GRID]),
)


@given(requests, st.floats(2, 6), st.floats(1.0, 3.0))
@settings(max_examples=25, deadline=None)
def test_a_larger_budget_is_never_expected_to_do_worse(wanted: Request, decades: float, factor: float) -> None:
    grid = PricedGrid(price_cells(wanted))
    fewer, more = grid.ranked(10**decades), grid.ranked(factor * 10**decades)
    by_key = {cell.key: cell for cell in more}
    for cell in fewer:
        score = cell.expected_score
        assert 0 <= score.low <= score.median <= score.high <= 1
        assert score.low < score.high
        assert 1 <= cell.allocation.update_steps <= cell.affordable_steps
        assert by_key[cell.key].expected_score.median >= score.median - 1e-12
        assert np.dot(grid.prior.weights, cell.scores) == pytest.approx(score.median)
    assert math.isclose(float(grid.prior.weights.sum()), 1.0)
    assert [cell.expected_score.median for cell in fewer] == sorted(
        (cell.expected_score.median for cell in fewer), reverse=True
    )


def regrets(neighbours: Iterable[Request], budgets: Iterable[float]) -> list[float]:
    """Return what each plan's first row falls short of its neighbour's first, by what the neighbour expects."""
    ranked = [PricedGrid(price_cells(each)).ranked(budget) for each, budget in zip(neighbours, budgets, strict=False)]
    expected = [{cell.key: cell.expected_score.median for cell in cells} for cells in ranked if cells]
    firsts = [next(iter(scores)) for scores in expected]
    return [scores[own] - scores[other] for own, other, scores in zip(firsts[1:], firsts, expected[1:], strict=False)]


@pytest.mark.parametrize(
    ("model", "tokens", "rate"), [("qwen2.5-7b", 8192, 0.45), ("qwen2.5-3b", 1024, 0.45), ("qwen2.5-14b", 8192, 0.1)]
)
def test_what_is_best_for_a_budget_is_nearly_so_for_twice_as_much(model: str, tokens: int, rate: float) -> None:
    wanted = request(model=model, response_tokens=tokens, pass_rates=BetaPassRates(rate))
    assert max(regrets(repeat(wanted), (100 * 2**number for number in range(14)))) < STEP
    last = PricedGrid(price_cells(wanted)).ranked(100 * 2**13)[0]
    assert last.allocation.epochs(6000) < 100, "thousands of passes over the prompts are no plan"


@pytest.mark.parametrize("budget", [4000.0, 40_000.0])
def test_what_is_best_for_a_workload_is_nearly_so_for_its_neighbours(budget: float) -> None:
    by_rate = [request(pass_rates=BetaPassRates(rate / 20)) for rate in range(1, 20)]
    by_model = [request(model=model) for model in MODELS]
    by_length = [request(response_tokens=tokens) for tokens in (1024, 2048, 4096, 8192, 16_384, 32_768)]
    for line in (by_rate, by_model, by_length):
        assert max(regrets(line, repeat(budget))) < STEP
    near = [
        PricedGrid(price_cells(request(pass_rates=BetaPassRates(rate)))).ranked(budget)[0].expected_score.median
        for rate in (0.299, 0.301, 0.599, 0.601)
    ]
    assert near[1] - near[0] == pytest.approx(0, abs=0.01)
    assert near[3] - near[2] == pytest.approx(0, abs=0.01)


def test_what_lies_far_from_the_studies_counts_less_and_is_less_certain() -> None:
    near = request(model="qwen2.5-7b")
    far = [
        request(model="qwen2.5-7b", response_tokens=500),
        request(model="qwen2.5-72b"),
        request(model="qwen3-30b-a3b"),
    ]
    studied, generic = STUDIES[0].studied, len(STUDIES) - 1
    assert studied is not None
    for other in far:
        there, here = Circumstances.of(other.workload), Circumstances.of(near.workload)
        assert distance(studied, there) > distance(studied, here)
        assert weights_of(there)[generic] > weights_of(here)[generic]
        widths = [
            score.high - score.low
            for wanted in (near, other)
            for score in [PricedGrid(price_cells(wanted)).ranked(20_000)[0].expected_score]
        ]
        assert widths[1] > widths[0]


AUTO = PilotRules()


def tried(proposal: Proposal) -> list[Candidate]:
    return [each for each in proposal.candidates if each.axes]


@pytest.mark.parametrize(
    ("given", "rates"),
    [
        ({}, TRIED_RATES),
        ({"cost.lora_rank": ("--lora-rank", 16)}, TRIED_RATES),
        ({"recipe.learning_rate": ("--learning-rate", 2e-6)}, ()),
        ({"axes.learning_rates": ("--learning-rates", [1.0])}, ()),
        ({"axes.recipes": ("--recipes", ["grpo", "dapo"])}, ()),
    ],
)
def test_the_default_plan_tries_other_rates_and_a_given_rate_stays(
    given: dict[str, tuple[str, Any]], rates: tuple[float, ...]
) -> None:
    layer = flag_layer({"budget.gpu_hours": ("--budget", 5000.0), **given})
    assert build_request(resolve(layer)).other_rates == rates


def test_the_other_rate_is_a_pilot_of_the_first_row_at_the_same_price() -> None:
    asked = replace(request(20_000.0, pilots=AUTO), other_rates=(3.0,))
    plan = propose(asked)
    first, (other,) = plan.candidates[0], tried(plan)
    assert (first.axes, other.axes) == ((), (("learning_rate", 3.0),))
    assert (other.cell.key, other.cell.cost, other.pilot.steps) == (first.cell.key, first.cell.cost, first.pilot.steps)
    assert other.learning_rate == pytest.approx(3 * first.learning_rate)
    assert first.cell.expected > other.cell.expected > first.cell.base
    without = propose(replace(asked, other_rates=()))
    assert [each.cell for each in without.candidates[:1]] == [first.cell]


@pytest.mark.parametrize(
    "asked", [replace(request(5000.0, pilots=PilotRules(fraction=0.0)), other_rates=(3.0,)), request(5000.0)]
)
def test_a_plan_without_pilots_has_no_rows_of_other_rates(asked: Request) -> None:
    assert tried(propose(asked)) == []


def test_a_sweep_is_told_what_another_rate_is_expected_to_keep() -> None:
    first = propose(request(5000.0, pilots=AUTO)).candidates[0].cell
    run = Run.of(first.key, first.signal_fraction, first.variant.traits, Circumstances.of(first.variant.workload))
    at = [first.configuration._replace(axes=axes) for axes in ((), (("learning_rate", 3.0),))]
    told = prior_of_plan([Priced(each, run, first.cost.gpu_hours_per_step) for each in at], 4000.0)
    assert told is not None
    rule, other = (np.array(told.weights) @ np.array(told.gains[each]) for each in at)
    kept = other / rule
    assert kept[-1] == pytest.approx(0.7, abs=0.1)
    assert kept[0] > kept[-1]  # early on it may learn faster, and a collapse is still to come


def test_the_rule_s_own_rate_changes_nothing_and_far_too_high_a_one_collapses() -> None:
    scores = np.linspace(0.4, 0.8, 512, dtype=np.float32)
    np.testing.assert_allclose(at_rate(scores, 0.4, 1.0), scores, atol=1e-6)
    np.testing.assert_allclose(at_rate(scores, 0.4, 1000.0), 0.4)
    assert 0.4 < at_rate(scores, 0.4, 0.1).mean() < scores.mean()
