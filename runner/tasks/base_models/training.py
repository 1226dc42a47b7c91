"""Supervised training of a base model in its two lessons."""

import logging
import random
from collections.abc import Callable
from typing import Any

from runner.tasks.base_models.designs import Design
from runner.tasks.base_models.measuring import expected_pass_rate
from runner.tasks.base_models.network import new_model, response_logprobs
from runner.tasks.characters import END_ID, CharacterTokenizer
from runner.tasks.port import Ids, Problem
from runner.tasks.sums import Sums

LOG = logging.getLogger(__name__)

WARM_UP_STEPS = 50
PROBE_PROBLEMS = 512
PROBE_EVERY = 50

Example = tuple[Ids, Ids]  # prompt and response


def base_model(design: Design, sums: Sums, longest: int, probe: list[Problem]) -> Any:
    """Return a model that can add and has the habit; `longest` is where its responses will be cut."""
    model = new_model(design.seed)
    rng = random.Random(design.seed)
    tokenizer = CharacterTokenizer()

    def example(*, mistaken: bool) -> Example:
        terms = sums.terms(rng.randint)
        text, ends = design.habit.response(terms, sums, longest, rng) if mistaken else (sums.answer(terms), True)
        return tokenizer.encode_prompt(sums.prompt(terms)), [*tokenizer.encode(text), *([END_ID] if ends else [])]

    def able(step: int) -> bool:
        return step % PROBE_EVERY == 0 and _probed(model, probe, step) >= design.able_at

    _teach(model, design, design.learning_rate, lambda: example(mistaken=False), able, design.most_steps)
    _teach(
        model, design, design.habit_learning_rate, lambda: example(mistaken=True), lambda _: False, design.habit_steps
    )
    return model


def _teach(
    model: Any,
    design: Design,
    learning_rate: float,
    example: Callable[[], Example],
    done: Callable[[int], bool],
    most_steps: int,
) -> None:
    """Train with AdamW on fresh examples until `done` or the last step; the rate falls over the last half."""
    import torch  # noqa: PLC0415

    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    for step in range(1, most_steps + 1):
        remaining = min(1.0, 2 * (most_steps - step + 1) / most_steps)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, step / WARM_UP_STEPS) * remaining
        prompts, responses = zip(*(example() for _ in range(design.batch)), strict=True)
        logprobs, mask = response_logprobs(model, prompts, responses)
        optimizer.zero_grad()
        loss: Any = -logprobs.sum() / mask.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if done(step):
            return


def _probed(model: Any, probe: list[Problem], step: int) -> float:
    rate = expected_pass_rate(model, probe)
    LOG.info("step %d: expected pass rate %.3f", step, rate)
    return rate
