"""The transformer of the embedded tasks, and the log-probabilities that its pre-training and measurement need."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runner.tasks.characters import END_ID, PAD_ID, START_ID, VOCABULARY

if TYPE_CHECKING:
    from torch import Tensor, nn

SHAPE = {
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 32,  # vLLM's attention on the CPU takes 32, 64, … only
    "intermediate_size": 256,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}


def new_model(seed: int) -> "nn.Module":
    """Return an untrained model whose weights depend on the seed alone."""
    import torch  # noqa: PLC0415
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    torch.manual_seed(seed)
    config = LlamaConfig(bos_token_id=START_ID, eos_token_id=END_ID, pad_token_id=PAD_ID, **SHAPE)
    model: nn.Module = LlamaForCausalLM(config)
    return model


def response_logprobs(
    model: Any, prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]]
) -> tuple["Tensor", "Tensor"]:
    """Return the log-probability of each response token, and the mask of those that are there.

    Rows are padded on the right only: with causal attention no token sees the padding behind it.
    """
    import torch  # noqa: PLC0415

    rows = [[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [PAD_ID] * (width - len(row)) for row in rows])
    starts = torch.tensor([len(prompt) for prompt in prompts])[:, None]
    ends = torch.tensor([len(row) for row in rows])[:, None]
    places = torch.arange(1, width)
    mask = (places >= starts) & (places < ends)
    logits = model(input_ids=ids).logits[:, :-1].float()
    logprobs = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return logprobs * mask, mask
