"""A tiny Llama with peaked distributions, and what it gives to tokens, worked out apart from every engine."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from runner.ports.engine import Rollouts

PAD, END, VOCABULARY = 0, 1, 32
CONTEXT = 320  # room for a prompt of several blocks of a paged key-value cache
PROMPTS = ([5, 6, 7], [9], [11, 12, 13, 14, 15, 16, 17, 18], [20, 21])
LONG_PROMPT = [2 + (7 * place) % 30 for place in range(300)]


@cache
def tiny_llama(seed: int, *, tied: bool = False) -> LlamaForCausalLM:
    """A model with random weights; logits have a standard deviation of about 2, so no distribution is uniform."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=3,  # not END: an engine ends where it was told to and not where the checkpoint says
        pad_token_id=PAD,
        tie_word_embeddings=tied,
    )
    model = LlamaForCausalLM(config).float().eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 0.25, generator=generator)
    return model


def saved(model: LlamaForCausalLM, folder: Path) -> str:
    """Save the model as a checkpoint and return where it lies."""
    model.save_pretrained(folder)
    return str(folder)


def logits_after(model: PreTrainedModel, prompt: Sequence[int], response: Sequence[int] = ()) -> Tensor:
    """The logits of each token of the response and of the one after it, in one pass over both."""
    logits: Tensor = model(torch.tensor([[*prompt, *response]])).logits[0]
    return logits[len(prompt) - 1 :]


def responses(rollouts: Rollouts) -> list[tuple[list[int], list[int]]]:
    """Prompt and response of each row, without padding."""
    return [
        (list(rollouts.prompts[row // rollouts.per_prompt]), rollouts.tokens[row][rollouts.mask[row]].tolist())
        for row in range(rollouts.count)
    ]


def padded(rows: Sequence[Tensor], like: Rollouts) -> Tensor:
    """Rows of log-probabilities in the shape of the rollouts."""
    whole = torch.zeros(like.tokens.shape)
    for row, values in enumerate(rows):
        whole[row, : len(values)] = values
    return whole


@torch.no_grad()
def expected_logprobs(model: PreTrainedModel, rollouts: Rollouts, temperature: float = 1.0) -> Tensor:
    """The log-probabilities of the sampled tokens at a temperature, one row at a time and without padding."""
    rows = []
    for prompt, response in responses(rollouts):
        logprobs = (logits_after(model, prompt, response)[:-1].float() / temperature).log_softmax(-1)
        rows.append(logprobs.gather(1, torch.tensor(response)[:, None])[:, 0])
    return padded(rows, rollouts)
