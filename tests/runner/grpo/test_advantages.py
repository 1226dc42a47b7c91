import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planner.recipes.schema import Advantage, Rewards
from runner.grpo.advantages import advantages, has_signal, loss_mask, shaped_rewards

REWARDS = torch.tensor([1.0, 0.0, 0.0, 3.0])  # two groups of two: ±½ about ½, ∓1½ about 1½

batches = st.integers(2, 5).flatmap(
    lambda per_prompt: st.tuples(
        st.just(per_prompt),
        st.lists(
            st.lists(st.sampled_from([-1.0, 0.0, 0.1, 0.3, 1.0]), min_size=per_prompt, max_size=per_prompt),
            min_size=1,
            max_size=6,
        ),
    )
)


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


@pytest.mark.parametrize(("masked", "kept"), [(False, [True, True]), (True, [True, False])])
def test_truncated_responses_are_left_out_only_if_asked(masked, kept):
    mask = torch.tensor([[True, True, False], [True, True, True]])
    result = loss_mask(mask, torch.tensor([False, True]), Rewards(mask_truncated=masked))
    assert torch.equal(result, mask & torch.tensor(kept)[:, None])


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, -0.3])
def test_alike_groups_get_exactly_nothing_even_without_epsilon(scale, value):
    rewards = torch.tensor([value] * 7 + [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0])  # a mean of seven tenths is rounded
    result = advantages(rewards, 7, Advantage(scale=scale, epsilon=0.0))
    assert torch.equal(result[:7], torch.zeros(7))
    assert result[7:].isfinite().all()
    assert torch.equal(advantages(rewards[:7], 7, Advantage(scale=scale, epsilon=0.0)), torch.zeros(7))
    assert has_signal(rewards, 7).tolist() == [False, True]


@given(batches, st.sampled_from(["group", "batch", "none"]))
def test_advantages_sum_to_nothing_in_each_group_and_keep_the_order_of_rewards(batch, scale):
    per_prompt, groups = batch
    rewards = torch.tensor(groups, dtype=torch.float64)
    result = advantages(rewards.reshape(-1), per_prompt, Advantage(scale=scale)).reshape(rewards.shape)
    assert result.sum(dim=1).abs().max() < 1e-9
    assert (result.sort(dim=1).values - result.gather(1, rewards.argsort(dim=1))).abs().max() < 1e-9


@given(batches)
def test_scaled_advantages_have_the_deviation_one(batch):
    per_prompt, groups = batch
    rewards = torch.tensor(groups, dtype=torch.float64).reshape(-1)
    signal = has_signal(rewards, per_prompt)
    by_group = advantages(rewards, per_prompt, Advantage(epsilon=0.0)).reshape(-1, per_prompt)
    assert torch.allclose(by_group.std(dim=1), signal.double())
    by_batch = advantages(rewards, per_prompt, Advantage(scale="batch", epsilon=0.0))
    assert torch.allclose(by_batch.std(), signal.any().double())


@given(batches)
def test_signal_is_where_rewards_differ(batch):
    per_prompt, groups = batch
    flat = torch.tensor(groups).reshape(-1)
    assert has_signal(flat, per_prompt).tolist() == [len(set(group)) > 1 for group in groups]
