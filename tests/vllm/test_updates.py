"""Weights that go into a running vLLM are the ones that it samples from."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from budgets.errors import InputError
from runner.engines.vllm_engine import VllmEngine
from runner.ports.engine import Rollouts, Sampling
from tests.conformance.tiny_llama import PROMPTS, expected_logprobs, logits_after, responses, tiny_llama

# On these peaked weights FP32 itself is no finer: both vLLM and transformers are up to 1.5e-5 away from FP64.
FP32 = 3e-5
TWELVE = Sampling(max_tokens=12)


def advantages(rollouts: Rollouts) -> Tensor:
    """Of a reward for even tokens, centred in each group."""
    rewards = ((rollouts.tokens % 2 == 0) & rollouts.mask).sum(1) / rollouts.mask.sum(1)
    groups = rewards.view(-1, rollouts.per_prompt)
    return (groups - groups.mean(1, keepdim=True)).flatten()


def test_logprobs_track_a_model_in_training(engine: VllmEngine) -> None:
    model = deepcopy(tiny_llama(0)).requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    before = None
    for update in range(3):
        engine.load_weights(model.state_dict().items())
        rollouts = engine.generate(PROMPTS, 8, TWELVE, seed=update)
        with torch.no_grad():
            expected = expected_logprobs(model, rollouts)
        torch.testing.assert_close(rollouts.logprobs, expected, atol=FP32, rtol=0)
        assert (rollouts.logprobs - expected).abs().mean() < FP32 / 10
        if before is not None:
            stale = expected_logprobs(before, rollouts)
            assert (rollouts.logprobs - stale).abs().max() > 0.1
        before = deepcopy(model).requires_grad_(False)
        scale = advantages(rollouts)
        loss = torch.zeros(())
        for row, (prompt, response) in enumerate(responses(rollouts)):
            logprobs = logits_after(model, prompt, response)[:-1].log_softmax(-1)
            loss = loss - scale[row] * logprobs.gather(1, torch.tensor(response)[:, None]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_a_temperature_that_vllm_would_raise_is_refused(engine: VllmEngine) -> None:
    with pytest.raises(InputError, match=r"between 0 and 0.01, and 0.001 was given"):
        engine.generate(PROMPTS, 2, Sampling(max_tokens=2, temperature=0.001), seed=1)
