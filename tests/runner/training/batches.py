"""Batches with made-up rollouts, as a collector would hand them to an updater."""

import torch

from runner.policy.scorer import Batch, Rows, Scorer
from tests.runner.tiny import VOCABULARY, tiny_model


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
