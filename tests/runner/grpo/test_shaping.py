import pytest
import torch

from planner.recipes.schema import Rewards
from runner.grpo.advantages import loss_mask, shaped_rewards


@pytest.mark.parametrize(
    ("correct", "wrong", "expected"),
    [(1.0, 0.0, [0.0, 0.25, 1.0]), (1.0, -1.0, [-1.0, -0.5, 1.0]), (0.0, 1.0, [1.0, 0.75, 0.0])],
)
def test_scores_are_scaled_from_wrong_to_correct(correct, wrong, expected):
    rewards = shaped_rewards(
        torch.tensor([0.0, 0.25, 1.0]), torch.tensor([3, 9, 10]), 10, Rewards(correct=correct, wrong=wrong)
    )
    assert rewards.tolist() == pytest.approx(expected)


def test_the_penalty_falls_linearly_over_the_last_share_of_the_length():
    lengths = torch.tensor([1, 8, 9, 10, 11, 12, 13])
    rewards = shaped_rewards(torch.ones(7), lengths, 12, Rewards(overlong_share=1 / 3))
    assert rewards.tolist() == pytest.approx([1, 1, 0.75, 0.5, 0.25, 0, 0])


def test_the_penalty_of_dapo():
    """Its cache is 4,096 of 20,480 tokens."""
    lengths = torch.tensor([16_384, 18_432, 20_480])
    rewards = shaped_rewards(torch.ones(3), lengths, 20_480, Rewards(overlong_share=0.2, wrong=-1.0))
    assert rewards.tolist() == pytest.approx([1, 0.5, 0])


@pytest.mark.parametrize(("masked", "kept"), [(False, [True, True]), (True, [True, False])])
def test_truncated_responses_are_left_out_only_if_asked(masked, kept):
    mask = torch.tensor([[True, True, False], [True, True, True]])
    result = loss_mask(mask, torch.tensor([False, True]), Rewards(mask_truncated=masked))
    assert torch.equal(result, mask & torch.tensor(kept)[:, None])
