"""Every family of models gives the log-probabilities of a full forward pass, whatever is padded beside it."""

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM, T5Config, T5ForConditionalGeneration

from budgets.errors import InputError
from runner.engines.torch_engine import TorchEngine
from runner.ports.engine import Sampling
from tests.conformance.tiny_llama import expected_logprobs
from tests.runner.engines.models import CONFIGS, END, PAD, PROMPTS, build


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("prompts", [PROMPTS, [[5, 6, 7], [8, 9, 10]]], ids=["padded", "of one length"])
def test_logprobs_are_those_of_a_full_pass(name: str, prompts: list[list[int]]) -> None:
    model = build(name)
    rollouts = TorchEngine(model, end_id=END, pad_id=PAD).generate(prompts, 3, Sampling(10, 0.6), seed=5)
    torch.testing.assert_close(rollouts.logprobs, expected_logprobs(model, rollouts, 0.6), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_responses_are_those_of_transformers(name: str) -> None:
    model = build(name)
    rollouts = TorchEngine(model, end_id=END, pad_id=PAD).generate(PROMPTS, 1, Sampling(12, 0.0), seed=0)
    for row, prompt in enumerate(PROMPTS):
        ids = torch.tensor([prompt])
        whole = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=PAD
        )
        assert rollouts.tokens[row][rollouts.mask[row]].tolist() == whole[0, len(prompt) :].tolist()


def test_eager_attention_is_as_good() -> None:
    model = build("llama")
    model.set_attn_implementation("eager")
    rollouts = TorchEngine(model, end_id=END, pad_id=PAD).generate(PROMPTS, 2, Sampling(8), seed=3)
    torch.testing.assert_close(rollouts.logprobs, expected_logprobs(model, rollouts), atol=1e-5, rtol=0)


def test_models_that_keep_a_state_or_have_an_encoder_are_refused() -> None:
    model = MambaForCausalLM(MambaConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, state_size=4))
    with pytest.raises(InputError, match=r"MambaForCausalLM has .*: the torch engine decodes attention layers only"):
        TorchEngine(model, end_id=END, pad_id=PAD)
    config = T5Config(vocab_size=20, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    with pytest.raises(InputError, match="decoder"):
        TorchEngine(T5ForConditionalGeneration(config), end_id=END, pad_id=PAD)
