"""Where a definition is not TRL's on purpose: by how much, and which setting would be TRL's."""

import pytest
import torch

from planner.recipes.schema import Objective
from tests.trl.harness import GROUPS, MASK, Given, score, trainer
from tests.trl.test_losses import gradients, options, ours

TOKENS = 48  # of the three groups: 16, 15 and 17
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


def at_ratio(ratio: float, reference: float = 1.0) -> Given:
    """Return tokens of one probability ratio to older weights, and one of the base model to the policy."""
    logprobs = torch.full(MASK.shape, -1.0)
    old = logprobs - torch.tensor(ratio).log()
    base = logprobs + torch.tensor(reference).log()
    entropies = torch.ones(MASK.shape).requires_grad_()
    return Given(logprobs=logprobs.requires_grad_(), old=old, sampler=old, reference=base, entropies=entropies)


def of_trl(data: Given, **changes: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradient of TRL's loss to the log-probabilities, and the advantages."""
    made = trainer(**{**options("dapo", "token", 0.0, 0.0), **changes})
    inputs = score(made, data)
    return gradients(made._compute_loss(made.model, inputs), data)[0], inputs["advantages"][:, None]


def of_ours(data: Given, **chosen: object) -> torch.Tensor:
    """Return the gradient of our loss to the log-probabilities."""
    return gradients(ours(data, Objective(**chosen), old=data.old), data)[0]


def test_the_mean_of_prompts_is_not_the_mean_of_tokens():
    data = at_ratio(1.0)
    theirs, advantage = of_trl(data)
    torch.testing.assert_close(theirs, -advantage / TOKENS * MASK, **CLOSE)
    totals = torch.tensor([16.0, 15.0, 17.0])[GROUPS][:, None]
    torch.testing.assert_close(of_ours(data, aggregation="prompt"), -advantage / (3 * totals) * MASK, **CLOSE)
    torch.testing.assert_close(of_ours(data, aggregation="token"), theirs, **CLOSE)


@pytest.mark.parametrize(
    ("ratio", "theirs_keeps", "ours_keeps"),
    [(0.5, 0.5, 0.8), (1.0, 1.0, 1.0), (3.0, 3.0, 3.0), (9.0, 5.0, 5.0)],
)
def test_trls_cispo_caps_at_an_absolute_ratio_without_a_floor(ratio, theirs_keeps, ours_keeps):
    """A bound of 5 (ScaleRL) is epsilon_high = 5 in TRL, and 1 + 4 in MiniMax's paper, in verl and here."""
    data = at_ratio(ratio)
    theirs, advantage = of_trl(data, loss_type="cispo", epsilon_high=5.0)
    torch.testing.assert_close(theirs, -theirs_keeps * advantage / TOKENS * MASK, **CLOSE)
    with_floor = of_ours(data, clip="cispo", aggregation="token", clip_low=0.2, clip_high=4.0)
    torch.testing.assert_close(with_floor, -ours_keeps * advantage / TOKENS * MASK, **CLOSE)
    without = of_ours(data, clip="cispo", aggregation="token", clip_low=None, clip_high=4.0)
    torch.testing.assert_close(without, theirs, **CLOSE)


@pytest.mark.parametrize("reference", [0.5, 2.0])
def test_trl_multiplies_the_kl_term_by_the_ratio_unless_told_not_to(reference):
    """Its default since 1.x is DeepSeek-V3.2's unbiased gradient; GRPO's k3, and our default, is the plain one."""
    data = at_ratio(1.0, reference)
    log_reference = torch.tensor(reference).log()
    without, _ = of_trl(data)
    plain, _ = of_trl(data, beta=0.04, use_bias_correction_kl=False)
    corrected, _ = of_trl(data, beta=0.04, use_bias_correction_kl=True)
    torch.testing.assert_close(plain - without, 0.04 * (1 - reference) / TOKENS * MASK, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(corrected - without, -0.04 * log_reference / TOKENS * MASK, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(of_ours(data, aggregation="token", kl=0.04), plain, **CLOSE)
    weighted = of_ours(data, aggregation="token", kl=0.04, kl_weighted=True)
    torch.testing.assert_close(weighted, corrected, **CLOSE)
