"""Micro-batches of tokens whose log-probabilities are off policy, off the sampler and off the base model."""

import dataclasses

import torch

from planner.recipes.schema import Objective
from runner.grpo.objective import Tokens, objective, token_weights

PER_TENSOR = ("logprobs", "old", "sampler", "reference", "entropies")
PER_ROW = ("advantages", "mask", "weights")


def tokens(
    lengths: list[int], longest: int, seed: int = 0, *, rule: str = "token", per_prompt: int = 2, spread: float = 0.4
) -> Tokens:
    """Return random tokens in double precision, with gradients to log-probabilities and entropies."""
    generator = torch.Generator().manual_seed(seed)
    rows = len(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]

    def noise(scale: float) -> torch.Tensor:
        return scale * torch.randn((rows, longest), generator=generator, dtype=torch.float64)

    logprobs = -0.1 - noise(1.0).abs()
    old = logprobs + noise(spread)
    return Tokens(
        logprobs=logprobs.clone().requires_grad_(),
        old=old,
        sampler=old + noise(spread),
        reference=logprobs + noise(spread),
        entropies=noise(1.0).abs().requires_grad_(),
        advantages=torch.randn(rows, generator=generator, dtype=torch.float64),
        mask=mask,
        weights=token_weights(mask, torch.arange(rows) // per_prompt, rule, longest).double(),
        entropy_weight=1 / max(int(mask.sum()), 1),
    )


def one(ratio: float, advantage: float, *, logprob: float = -1.0, **changes: object) -> Tokens:
    """Return a single token at a probability ratio."""
    logprobs = torch.tensor([[logprob]], dtype=torch.float64)
    old = logprobs - torch.tensor(ratio, dtype=torch.float64).log()
    made = Tokens(
        logprobs=logprobs.requires_grad_(),
        old=old.detach(),
        sampler=old.detach(),
        reference=None,
        entropies=None,
        advantages=torch.tensor([advantage], dtype=torch.float64),
        mask=torch.ones(1, 1, dtype=torch.bool),
        weights=torch.ones(1, 1, dtype=torch.float64),
        entropy_weight=1.0,
    )
    return dataclasses.replace(made, **changes)


def rows_of(whole: Tokens, rows: torch.Tensor | slice) -> Tokens:
    """Return some rows as a micro-batch: weights stay those of the whole."""
    return dataclasses.replace(whole, **{name: getattr(whole, name)[rows] for name in (*PER_TENSOR, *PER_ROW)})


def gradients(loss: torch.Tensor, whole: Tokens) -> tuple[torch.Tensor, ...]:
    """Return the gradient to log-probabilities and entropies."""
    wanted = [each for each in (whole.logprobs, whole.entropies) if each is not None]
    return torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)


def late_batch(settings: Objective) -> tuple[Tokens, torch.Tensor, torch.Tensor]:
    """Return six responses of older weights, what later weights say of them, and the gradient of our objective."""
    rows, longest, generator = 6, 9, torch.Generator().manual_seed(5)
    mask = torch.arange(longest) < torch.randint(1, longest + 1, (rows, 1), generator=generator)
    sampled, noise, later = -torch.rand((3, rows, longest), generator=generator)
    logprobs = (sampled + noise - 0.5).requires_grad_()
    advantages = torch.randn(rows, generator=generator)
    weights = token_weights(mask, torch.arange(rows), settings.aggregation, longest)
    batch = Tokens(logprobs, sampled, sampled, None, None, advantages, mask, weights, 0.0)
    return batch, later, torch.autograd.grad(objective(batch, settings)[0], logprobs)[0]
