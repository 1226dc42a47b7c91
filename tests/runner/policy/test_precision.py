"""A bf16 sampler against an FP32 trainer: computing the logits in FP32 takes most of the mismatch away."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from runner.policy.model import Head, decoder_of
from runner.policy.scorer import Rows, Scorer


def peaked_model(seed: int = 0) -> LlamaForCausalLM:
    """Return a model whose logits are large, as those of trained models are: there bf16 has few digits."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=False,
        )
    )
    with torch.no_grad():
        model.lm_head.weight.mul_(40)
    return model.eval()


@torch.no_grad()
def test_from_the_same_hidden_states_an_fp32_head_leaves_next_to_nothing() -> None:
    model = peaked_model().to(torch.bfloat16)
    hidden = decoder_of(model)(input_ids=torch.arange(64)[None]).last_hidden_state
    exact = (hidden.double() @ model.lm_head.weight.double().T).log_softmax(dim=-1)
    off = {head: float((Head(model, fp32=head)(hidden).log_softmax(-1) - exact).abs().mean()) for head in (True, False)}
    assert off[True] < 1e-3 * off[False]


def test_under_autocast_the_head_stays_fp32_when_asked() -> None:
    model = peaked_model()
    tokens = torch.randint(0, 512, (4, 6), generator=torch.Generator().manual_seed(1))
    rows = Rows([[1, 2, 3]], 4, tokens, torch.ones_like(tokens, dtype=torch.bool))
    exact = Scorer(model, temperature=1.0, fp32_head=True)(rows)[0]
    off = {
        head: Scorer(model, temperature=1.0, fp32_head=head, autocast=True)(rows)[0] - exact for head in (False, True)
    }
    assert 0 < off[True].abs().mean() < off[False].abs().mean()
