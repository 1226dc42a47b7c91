"""The transformer of the embedded tasks, and how often it is right: exactly, and by sampling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.policy.model import cache_argument
from runner.ports.task import Problem
from runner.tasks.rewards import ExactReward
from runner.tasks.tokenizers import END_ID, PAD_ID, START_ID, VOCABULARY, CharacterTokenizer

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
BATCH = 64


def new_model(seed: int) -> "nn.Module":
    """Return an untrained model whose weights depend on the seed alone."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

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
    import torch

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


@dataclass(frozen=True, slots=True)
class Sampled:
    """Pass rates of problems, and the lengths of all responses to them in tokens."""

    pass_rates: list[float]
    lengths: list[int]
    truncated: float  # share of responses without an end token


def expected_pass_rate(model: Any, problems: Sequence[Problem]) -> float:
    """Return the mean probability of the right answer at temperature 1: what avg@k tends to as k grows."""
    import torch

    tokenizer = CharacterTokenizer()
    prompts = [tokenizer.encode_prompt(problem.prompt) for problem in problems]
    answers = [[*tokenizer.encode(problem.answer), END_ID] for problem in problems]
    with torch.no_grad():
        logprobs, _ = response_logprobs(model, prompts, answers)
    return float(logprobs.sum(1).exp().mean())


def sampled(model: Any, problems: Sequence[Problem], samples: int, longest: int, seed: int) -> Sampled:
    """Draw `samples` responses to each problem at temperature 1: its pass rate is avg@samples."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    tokenizer, reward = CharacterTokenizer(), ExactReward(strip=False)
    rates = [0.0] * len(problems)
    rows: list[list[int]] = []
    for indices in _alike(problems):
        chosen = [index for index in indices for _ in range(samples)]
        prompts = torch.tensor([tokenizer.encode_prompt(problems[index].prompt) for index in chosen])
        responses = _sample(model, prompts, longest, generator).tolist()
        asked = [problems[index] for index in chosen]
        scores = reward.score(asked, [tokenizer.decode(row) for row in responses]).values
        for index, score in zip(chosen, scores, strict=True):
            rates[index] += score / samples
        rows += responses
    lengths = [row.index(END_ID) + 1 if END_ID in row else longest for row in rows]
    return Sampled(rates, lengths, sum(END_ID not in row for row in rows) / len(rows))


def _alike(problems: Sequence[Problem]) -> list[list[int]]:
    """Group the indices of problems into batches whose prompts have one length, so that nothing needs padding."""
    by_length: dict[int, list[int]] = {}
    for index, problem in enumerate(problems):
        by_length.setdefault(len(problem.prompt), []).append(index)
    return [same[i : i + BATCH] for same in by_length.values() for i in range(0, len(same), BATCH)]


def _sample(model: Any, prompts: "Tensor", longest: int, generator: Any) -> "Tensor":
    import torch
    from transformers import DynamicCache

    ids, kept = prompts, {cache_argument(model): DynamicCache()}
    drawn: list[Tensor] = []
    ended = torch.zeros(len(prompts), dtype=torch.bool)
    with torch.no_grad():
        while len(drawn) < longest and not ended.all():
            logits = model(input_ids=ids, use_cache=True, logits_to_keep=1, **kept).logits[:, -1]
            ids = torch.multinomial(torch.softmax(logits.float(), -1), 1, generator=generator)
            ids[ended] = PAD_ID
            ended |= ids[:, 0] == END_ID
            drawn.append(ids)
    return torch.cat(drawn, 1)
