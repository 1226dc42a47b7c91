import math
from collections.abc import Iterable
from itertools import repeat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.signal import BetaPassRates
from planner.prior.draws import distance, weights_of
from planner.prior.laws import Circumstances
from planner.prior.studies import STUDIES, published_group
from planner.proposals import Request
from planner.proposals.grid import PricedGrid, price_cells
from planner.rules import GridBounds
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
