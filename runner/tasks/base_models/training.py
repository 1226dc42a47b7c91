"""Supervised training of a base model in its two lessons."""

import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from runner.ports.task import Ids, Problem
from runner.tasks.base_models.designs import Design
from runner.tasks.base_models.measuring import expected_pass_rate
from runner.tasks.base_models.mistakes import has_carry
from runner.tasks.base_models.network import new_model, response_logprobs
from runner.tasks.characters import END_ID, CharacterTokenizer
from runner.tasks.sums import Sums

LOG = logging.getLogger(__name__)

WARM_UP_STEPS = 50
PROBE_PROBLEMS = 512
PROBE_EVERY = 50
PLAIN_SHARE = 0.5  # of the first lesson's sums have no carry: which digits belong together is learned sooner

Example = tuple[Ids, Ids]  # prompt and response


def base_model(design: Design, sums: Sums, longest: int, probe: list[Problem]) -> Any:
    """Return a model that can add and has the habit; `longest` is where its responses will be cut."""
    model = new_model(design.seed)
    rng = random.Random(design.seed)
    tokenizer = CharacterTokenizer()

    def often_plain() -> Example:
        plain = rng.random() < PLAIN_SHARE
        terms = sums.terms(rng.randint)
        while plain and has_carry(terms):
            terms = sums.terms(rng.randint)
        return example(terms, mistaken=False)

    def mistaken() -> Example:
        return example(sums.terms(rng.randint), mistaken=True)

    def example(terms: list[int], *, mistaken: bool) -> Example:
        text, ends = design.habit.response(terms, sums, longest, rng) if mistaken else (sums.answer(terms), True)
        return tokenizer.encode_prompt(sums.prompt(terms)), [*tokenizer.encode(text), *([END_ID] if ends else [])]

    rate = design.learning_rate
    rising = [rate * min(1.0, step / WARM_UP_STEPS) for step in range(1, design.most_steps + 1)]
    optimizer = _adamw(model)
    _teach(model, optimizer, rising, often_plain, design.batch, lambda: _probed(model, probe) >= design.able_at)
    _teach(model, optimizer, _falling(rate, design.settling_steps), often_plain, design.batch)
    _probed(model, probe)
    habit_rates = [rate / 2] * design.habit_steps + _falling(rate / 2, design.habit_steps)
    _teach(model, _adamw(model), habit_rates, mistaken, design.batch)
    _probed(model, probe)
    return model


def _teach(
    model: Any,
    optimizer: Any,
    learning_rates: Sequence[float],
    example: Callable[[], Example],
    batch: int,
    done: Callable[[], bool] = lambda: False,
) -> None:
    """Train on fresh examples, a step for each learning rate, unless it is `done` earlier."""
    import torch  # noqa: PLC0415

    for step, rate in enumerate(learning_rates, start=1):
        for group in optimizer.param_groups:
            group["lr"] = rate
        prompts, responses = zip(*(example() for _ in range(batch)), strict=True)
        logprobs, mask = response_logprobs(model, prompts, responses)
        loss: Any = -logprobs.sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % PROBE_EVERY == 0:
            LOG.info("step %d: loss %.3f", step, loss.item())
            if done():
                return


def _adamw(model: Any) -> Any:
    import torch  # noqa: PLC0415

    return torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01)


def _falling(rate: float, steps: int) -> list[float]:
    return [rate * (steps - step) / steps for step in range(steps)]


def _probed(model: Any, probe: list[Problem]) -> float:
    rate = expected_pass_rate(model, probe)
    LOG.info("expected pass rate %.3f", rate)
    return rate
