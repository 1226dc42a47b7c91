"""Same log-probabilities, rewards and masks: same loss and same gradients as TRL, for each loss that TRL has."""

import pytest
import torch

from planner.recipes.schema import Advantage, Objective, Rewards
from runner.grpo.advantages import advantages, loss_mask
from runner.grpo.objective import Tokens, objective, token_weights
from tests.trl.harness import GROUPS, IMPORTANCE_CAP, LONGEST, MASK, PER_PROMPT, TRUNCATED, Given, score, trainer

CLOSE = {"rtol": 1e-5, "atol": 1e-7}
LOSSES = {
    "grpo": {"aggregation": "sample"},
    "bnpo": {"aggregation": "token"},
    "dr_grpo": {"aggregation": "constant"},
    "dapo": {"aggregation": "token"},
    "cispo": {"aggregation": "token", "clip": "cispo", "clip_low": None},
    "sapo": {"aggregation": "sample", "clip": "soft"},
    "luspo": {"aggregation": "sum"},
    "vespo": {"aggregation": "token", "clip": "gamma"},
}
LEVELS = {None: None, "token_truncate": "token", "sequence_truncate": "sequence"}
# The sampler's probabilities are corrected for token by token, or not at all: TRL refuses sequences with VESPO.
CASES = [
    (loss, importance)
    for loss in LOSSES
    for importance in LEVELS
    if (loss, importance) != ("vespo", "sequence_truncate")
]


def given(seed: int = 0) -> Given:
    """Return log-probabilities whose ratios cross every clip and every cap, with noise at padding too."""
    generator = torch.Generator().manual_seed(seed)

    def noise(scale: float) -> torch.Tensor:
        return scale * torch.randn(MASK.shape, generator=generator)

    logprobs = -0.1 - noise(1.0).abs()
    old = logprobs + noise(0.4)
    return Given(
        logprobs=logprobs.requires_grad_(),
        old=old.detach(),
        sampler=(old + noise(0.3)).detach(),
        reference=(logprobs + noise(0.5)).detach(),
        entropies=noise(1.0).abs().requires_grad_(),
    )


def options(loss: str, level: str, kl: float, entropy: float, *, weighted: bool = False) -> dict[str, object]:
    """Return TRL's settings."""
    return {
        "loss_type": loss,
        "importance_sampling_level": level,
        "beta": kl,
        "use_bias_correction_kl": weighted,
        "entropy_coef": entropy,
        "epsilon": 0.2,
        "epsilon_high": 1.28 if loss == "cispo" else 0.28,  # absolute for this one
    }


def settings(
    loss: str, level: str, kl: float, entropy: float, importance: str | None, *, weighted: bool = False
) -> Objective:
    """Return ours, which should mean the same."""
    cap = {} if importance is None else {"truncated_importance": IMPORTANCE_CAP}
    cap_level = {} if importance is None else {"truncated_importance_level": LEVELS[importance]}
    chosen = {"clip_low": 0.2, "clip_high": 0.28, "ratio": level, "kl": kl, "entropy": entropy, "kl_weighted": weighted}
    return Objective(**{**chosen, **LOSSES[loss], **cap, **cap_level})


def ours(data: Given, chosen: Objective, *, old: torch.Tensor, mask: torch.Tensor = MASK) -> torch.Tensor:
    """Return our loss, from the rewards on."""
    tokens = Tokens(
        logprobs=data.logprobs,
        old=old,
        sampler=data.sampler,
        reference=data.reference,
        entropies=data.entropies,
        advantages=advantages(torch.tensor(data.rewards), PER_PROMPT, Advantage()),
        mask=mask,
        weights=token_weights(mask, GROUPS, chosen.aggregation, LONGEST),
        entropy_weight=1 / int(mask.sum()),
    )
    return objective(tokens, chosen)[0]


def gradients(loss: torch.Tensor, data: Given) -> tuple[torch.Tensor, ...]:
    """Return the gradient to log-probabilities and entropies."""
    return torch.autograd.grad(loss, (data.logprobs, data.entropies), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize(("loss", "importance"), CASES)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(("kl", "weighted"), [(0.0, False), (0.04, False), (0.04, True)])
@pytest.mark.parametrize("entropy", [0.0, 0.01])
def test_loss_and_gradients_are_trls(loss, importance, level, kl, weighted, entropy):
    data = given()
    made = trainer(**options(loss, level, kl, entropy, weighted=weighted))
    theirs = made._compute_loss(made.model, score(made, data, importance))
    mine = ours(data, settings(loss, level, kl, entropy, importance, weighted=weighted), old=data.old)
    torch.testing.assert_close(mine, theirs, **CLOSE)
    torch.testing.assert_close(gradients(mine, data), gradients(theirs, data), **CLOSE)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_a_first_update_is_trls_without_old_log_probabilities(loss, level):
    data = given(seed=1)
    made = trainer(**options(loss, level, 0.04, 0.01))
    inputs = score(made, data, stale=False)
    assert "old_per_token_logps" not in inputs
    theirs = made._compute_loss(made.model, inputs)
    mine = ours(data, settings(loss, level, 0.04, 0.01, None), old=data.logprobs.detach())
    torch.testing.assert_close(mine, theirs, **CLOSE)
    torch.testing.assert_close(gradients(mine, data), gradients(theirs, data), **CLOSE)


@pytest.mark.parametrize(("loss", "importance"), CASES)
def test_truncated_responses_are_left_out_as_trl_does(loss, importance):
    data = given(seed=2)
    made = trainer(**options(loss, "token", 0.04, 0.01))
    theirs = made._compute_loss(made.model, score(made, data, importance, mask_truncated=True))
    mask = loss_mask(MASK, torch.tensor(TRUNCATED), Rewards(mask_truncated=True))
    assert mask.sum() < MASK.sum()
    mine = ours(data, settings(loss, "token", 0.04, 0.01, importance), old=data.old, mask=mask)
    torch.testing.assert_close(mine, theirs, **CLOSE)
    torch.testing.assert_close(gradients(mine, data), gradients(theirs, data), **CLOSE)
