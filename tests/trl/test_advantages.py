"""Same rewards: same advantages as TRL computes, except on the scale of the batch, where ScaleRL's differs."""

import pytest
import torch
from trl.rewards import get_soft_overlong_punishment

from planner.recipes.schema import Advantage, Rewards
from runner.grpo.advantages import advantages, shaped_rewards
from tests.trl.harness import COUNT, MASK, PER_PROMPT, REWARDS, Given, score, trainer

MIXED = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]  # squares about the groups' means: 2.5; about ½: 3
GRADED = [0.1, 0.7, 0.3, 0.9, -1.0, 0.2, 0.4, 2.5, 0.3, 0.3, 0.3, 0.3]


def of_trl(scale: str, rewards: list[float]) -> torch.Tensor:
    """Return the advantages that TRL's own code computes."""
    given = Given(sampler=torch.zeros(MASK.shape), rewards=rewards)
    return score(trainer(scale_rewards=scale), given)["advantages"]


@pytest.mark.parametrize("scale", ["group", "none"])
@pytest.mark.parametrize("rewards", [REWARDS, MIXED, GRADED, [0.1] * COUNT])
def test_advantages_are_trls(scale, rewards):
    mine = advantages(torch.tensor(rewards), PER_PROMPT, Advantage(scale=scale))
    torch.testing.assert_close(mine, of_trl(scale, rewards), rtol=1e-5, atol=1e-5)


def test_the_batch_scale_is_the_deviation_of_advantages_where_trl_takes_that_of_rewards():
    centred = advantages(torch.tensor(MIXED), PER_PROMPT, Advantage(scale="none"))
    mine = advantages(torch.tensor(MIXED), PER_PROMPT, Advantage(scale="batch"))
    torch.testing.assert_close(mine, centred / ((2.5 / 11) ** 0.5 + 1e-4), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(of_trl("batch", MIXED), centred / ((3 / 11) ** 0.5 + 1e-4), rtol=1e-5, atol=1e-6)


def test_the_batch_scales_agree_where_all_groups_have_the_same_mean():
    rewards = [1.0, 0.0, 1.0, 0.0] * 2 + [0.5, 0.5, 0.5, 0.5]
    mine = advantages(torch.tensor(rewards), PER_PROMPT, Advantage(scale="batch"))
    torch.testing.assert_close(mine, of_trl("batch", rewards), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("longest", "cache"), [(10, 4), (20, 4), (16, 8)])
def test_the_penalty_of_overlong_responses_is_trls(longest, cache):
    lengths = list(range(1, longest + 1))
    theirs = get_soft_overlong_punishment(longest, cache)(completion_ids=[[3] * length for length in lengths])
    mine = shaped_rewards(torch.zeros(longest), torch.tensor(lengths), longest, Rewards(overlong_share=cache / longest))
    torch.testing.assert_close(mine, torch.tensor(theirs), rtol=1e-5, atol=1e-6)
