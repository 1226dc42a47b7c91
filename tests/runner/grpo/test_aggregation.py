import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import UnknownNameError
from runner.grpo.objective import RULES, token_weights

LONGEST = 5
lengths_of_rows = st.lists(st.integers(0, LONGEST), min_size=1, max_size=8)


def masked(lengths: list[int], longest: int = LONGEST) -> torch.Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [  # responses of 1, 3, 4 and 0 tokens to prompts 7, 2, 7 and 2
        ("sample", [1 / 4, 1 / 12, 1 / 16, 0]),
        ("prompt", [1 / 10, 1 / 6, 1 / 10, 0]),
        ("token", [1 / 8, 1 / 8, 1 / 8, 0]),
        ("constant", [1 / 20, 1 / 20, 1 / 20, 0]),
        ("sum", [1 / 4, 1 / 4, 1 / 4, 0]),
    ],
)
def test_each_rule_by_hand(rule, expected):
    mask = masked([1, 3, 4, 0])
    weights = token_weights(mask, torch.tensor([7, 2, 7, 2]), rule, LONGEST)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights, mask * torch.tensor(expected)[:, None])


def test_there_are_no_other_rules():
    with pytest.raises(UnknownNameError, match=r"unknown aggregation 'tokens': did you mean 'token'"):
        token_weights(masked([1]), torch.tensor([0]), "tokens", LONGEST)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_to_train_on_weighs_nothing(rule):
    assert not token_weights(masked([0, 0]), torch.tensor([0, 1]), rule, LONGEST).any()
    assert token_weights(masked([0, 0])[:0], torch.tensor([], dtype=torch.int64), rule, LONGEST).shape == (0, LONGEST)


@given(st.lists(st.integers(1, LONGEST), min_size=1, max_size=8), st.sampled_from(["sample", "prompt", "token"]))
def test_means_have_weights_that_sum_to_one(lengths, rule):
    groups = torch.arange(len(lengths)) % 3
    assert token_weights(masked(lengths), groups, rule, LONGEST).sum().item() == pytest.approx(1, abs=1e-6)


@given(lengths_of_rows, st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_weights_follow_their_rows_and_ignore_names_of_groups(lengths, rule, random):
    mask, groups = masked(lengths), torch.arange(len(lengths)) // 2
    weights = token_weights(mask, groups, rule, LONGEST)
    order = list(range(len(lengths)))
    random.shuffle(order)
    torch.testing.assert_close(token_weights(mask[order], 100 - 7 * groups[order], rule, LONGEST), weights[order])


@given(lengths_of_rows, st.sampled_from(RULES), st.integers(0, 3))
def test_padding_changes_no_weight(lengths, rule, more):
    groups = torch.arange(len(lengths)) // 2
    weights = token_weights(masked(lengths), groups, rule, LONGEST)
    wider = token_weights(masked(lengths, LONGEST + more), groups, rule, LONGEST)
    assert torch.equal(wider[:, :LONGEST], weights)
    assert not wider[:, LONGEST:].any()
