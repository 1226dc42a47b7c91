"""Tiny random models of several families."""

from collections.abc import Callable, Sequence

import torch
from transformers import AutoModelForCausalLM as Auto
from transformers import (
    BloomConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    OPTConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3Config,
)

VOCABULARY, END, PAD = 40, 1, 0
PROMPTS: Sequence[Sequence[int]] = ([5, 6, 7], [9], [11, 12, 13, 14, 15, 16, 17, 18], [5, 6, 7], [20, 21])

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "bos_token_id": None,
    "eos_token_id": END,
    "pad_token_id": PAD,
}
_MODERN = {**_SIZES, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "max_position_embeddings": 64}

CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**_MODERN),
    "qwen3": lambda: Qwen3Config(**_MODERN, tie_word_embeddings=True),
    "gpt2": lambda: GPT2Config(**_SIZES, n_positions=64),
    "gemma2-in-its-window": lambda: Gemma2Config(**_MODERN, sliding_window=64, final_logit_softcapping=2.0),
    "gemma2-past-its-window": lambda: Gemma2Config(**_MODERN, sliding_window=4, attn_logit_softcapping=3.0),
    "mistral-in-its-window": lambda: MistralConfig(**_MODERN, sliding_window=64),
    "mistral-past-its-window": lambda: MistralConfig(**_MODERN, sliding_window=4),
    "opt": lambda: OPTConfig(**_SIZES, ffn_dim=48, word_embed_proj_dim=32, max_position_embeddings=64),
    "bloom-without-positions": lambda: BloomConfig(**_SIZES),
}


def build(name: str = "llama", seed: int = 0) -> PreTrainedModel:
    """A model whose distributions are far from uniform."""
    torch.manual_seed(seed)
    model: PreTrainedModel = Auto.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model
