"""Batches that are made up, and an engine whose responses are written down."""

from collections.abc import Callable, Sequence

import torch

from runner.policy.scorer import Batch, Rows, Scorer
from runner.ports.engine import Rollouts, Sampling, Weights
from tests.runner.tiny import END, PAD, VOCABULARY, tiny_model

Answer = Callable[[Sequence[int], int], list[int]]


def made_up_batch(*, groups: int = 5, n: int = 4, length: int = 5, seed: int = 0, shift: float = 0.1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    rows = groups * n
    tokens = torch.randint(0, VOCABULARY, (rows, length), generator=generator)
    lengths = torch.randint(1, length + 1, (rows, 1), generator=generator)
    lengths[0] = length
    mask = torch.arange(length) < lengths
    prompts = [[1, 2, 3][: 1 + group % 3] for group in range(groups)]
    with torch.no_grad():
        now, _ = Scorer(tiny_model(), temperature=1.0, fp32_head=True)(Rows(prompts, n, tokens, mask))
    noise = shift * torch.randn(now.shape, generator=generator)
    return Batch(
        prompts=prompts,
        per_prompt=n,
        tokens=tokens,
        mask=mask,
        loss_mask=mask,
        sampler=(now + noise).where(mask, 0.0),
        advantages=torch.randn(rows, generator=generator),
        generated=rows,
        generated_tokens=int(mask.sum()),
        measured={},
        notes=[],
    )


class ScriptedEngine:
    """Returns for each prompt and row what the script says; remembers what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[list[list[int]]] = []
        self.seeds: list[int] = []

    def generate(self, prompts: Sequence[Sequence[int]], per_prompt: int, sampling: Sampling, seed: int) -> Rollouts:
        self.asked.append([list(prompt) for prompt in prompts])
        self.seeds.append(seed)
        rows = [self._answer(prompt, row) for prompt in prompts for row in range(per_prompt)]
        rows = [row[: sampling.max_tokens] for row in rows]
        width = max(len(row) for row in rows)
        tokens = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
        mask = torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
        ends = torch.tensor([row[-1] == END for row in rows])
        forced = torch.zeros_like(mask)
        if sampling.interruption is not None:
            forced = (tokens == sampling.interruption.phrase[0]) & mask  # the script writes the phrase itself
        logprobs = torch.full(tokens.shape, -0.5).where(mask & ~forced, 0.0)
        return Rollouts(prompts, per_prompt, tokens, mask, forced, logprobs, ~ends)

    def load_weights(self, weights: Weights) -> None:
        """Keep the script."""

    def close(self) -> None:
        """Hold nothing."""


def right(prompt: Sequence[int]) -> list[int]:
    return [prompt[0], END]


def wrong(prompt: Sequence[int]) -> list[int]:
    return [1 if prompt[0] != 1 else 3, END]
