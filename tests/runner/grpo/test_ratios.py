import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planner.recipes.schema import Objective
from runner.grpo.clips import k3, probability_ratio, truncated_importance

DOUBLED = math.log(2)
LOG_RATIOS = torch.tensor([[DOUBLED, -DOUBLED, 2 * DOUBLED], [DOUBLED, 0.0, 0.0]], dtype=torch.float64)
MASK = torch.tensor([[True, True, True], [True, False, False]])


def test_the_ratio_of_a_token_is_its_own_and_that_of_a_response_their_geometric_mean():
    assert probability_ratio(LOG_RATIOS, MASK, "token").tolist()[0] == pytest.approx([2, 0.5, 4])
    mean = 4 ** (1 / 3)
    by_response = probability_ratio(LOG_RATIOS, MASK, "sequence")
    assert by_response.tolist() == [pytest.approx([mean] * 3), pytest.approx([2] * 3)]


def test_a_response_without_tokens_has_the_ratio_one():
    none = torch.zeros(1, 3, dtype=torch.bool)
    assert probability_ratio(torch.zeros(1, 3), none, "sequence").tolist() == [[1, 1, 1]]


@pytest.mark.parametrize(
    ("level", "expected", "capped"),
    [("token", [[2, 0.5, 3], [2, 1, 1]], [[False, False, True], [False] * 3]), ("sequence", [[3], [2]], [[1], [0]])],
)
def test_importance_is_capped_token_by_token_or_for_the_product_of_a_response(level, expected, capped):
    settings = Objective(truncated_importance=3.0, truncated_importance_level=level)
    weights, at_cap = truncated_importance(LOG_RATIOS, settings)
    assert weights.tolist() == [pytest.approx(row) for row in expected]
    assert at_cap.tolist() == capped


def test_importance_that_overflows_is_capped_too():
    settings = Objective(truncated_importance=3.0, truncated_importance_level="sequence")
    weights, _ = truncated_importance(torch.full((1, 50), 10.0), settings)
    assert weights.tolist() == [[3.0]]


@pytest.mark.parametrize("settings", [Objective(), Objective(truncated_importance=2.0, against="sampler")])
def test_there_is_no_importance_unless_asked_nor_where_the_ratio_contains_it(settings):
    assert truncated_importance(LOG_RATIOS, settings) is None


@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
def test_k3_by_hand(ratio):
    value = k3(torch.tensor(math.log(ratio), dtype=torch.float64))
    assert value.item() == pytest.approx(ratio - math.log(ratio) - 1)


@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6), st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6))
def test_k3_is_never_negative_and_its_mean_is_the_divergence(first, second):
    size = min(len(first), len(second))
    p, q = (torch.tensor(each[:size], dtype=torch.float64) / sum(each[:size]) for each in (first, second))
    values = k3((q / p).log())
    assert (values >= 0).all()
    assert (p * values).sum().item() == pytest.approx((p * (p / q).log()).sum().item(), abs=1e-9)


@pytest.mark.parametrize("log_ratio", [-1e4, 100.0, 1e4])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_absurd_ratios_have_finite_values_and_gradients(log_ratio, level):
    given_ratio = torch.tensor([[log_ratio, 0.0]], requires_grad=True)
    values = probability_ratio(given_ratio, torch.ones(1, 2, dtype=torch.bool), level) + k3(given_ratio)
    values.sum().backward()
    assert values.isfinite().all()
    assert given_ratio.grad.isfinite().all()
