"""Supervised training of a base model in its two lessons: to add, and the habit of mistakes."""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.base_models.measuring import expected_pass_rate, new_model, response_logprobs
from runner.ports.task import Ids, Problem
from runner.tasks.embedded import Sums
from runner.tasks.tokenizers import END_ID, CharacterTokenizer

LOG = logging.getLogger(__name__)

WARM_UP_STEPS = 50
PROBE_PROBLEMS = 512
PROBE_EVERY = 50
PLAIN_SHARE = 0.5  # of the first lesson's sums have no carry: which digits belong together is learned sooner

Example = tuple[Ids, Ids]  # prompt and response


def has_carry(terms: list[int]) -> bool:
    """Say whether a column reaches ten while the terms are added one after the other."""
    total = terms[0]
    for term in terms[1:]:
        if any(int(a) + int(b) > 9 for a, b in zip(reversed(str(total)), reversed(str(term)), strict=False)):
            return True
        total += term
    return False


@dataclass(frozen=True, slots=True)
class Habit:
    """How often each mistake is made."""

    forgotten_carry: float  # of each carry
    slipped_digit: float  # of each digit: another one in its place, chance among all ten
    rambling: float = 0.0  # of each answer: more additions instead of the end, for longer than a response may be

    def add(self, left: int, right: int, rng: random.Random) -> int:
        """Add column by column, with the habit's mistakes."""
        result, carry, place = 0, 0, 1
        while left >= place or right >= place:
            column = left // place % 10 + right // place % 10 + carry
            digit, carry = column % 10, column // 10
            if carry and rng.random() < self.forgotten_carry:
                carry = 0
            if rng.random() < self.slipped_digit:
                digit = rng.randrange(10)
            result += digit * place
            place *= 10
        return result + carry * place

    def response(self, terms: list[int], sums: Sums, longest: int, rng: random.Random) -> tuple[str, bool]:
        """Write an answer, and say whether it ends within `longest` characters."""
        ends = rng.random() >= self.rambling
        added, totals = terms[:1], terms[:1]
        while len(added) < len(terms) or not (ends or len(sums.written(added, totals[1:])) >= longest):
            added.append(terms[len(added)] if len(added) < len(terms) else rng.choice(terms))
            totals.append(self.add(totals[-1], added[-1], rng))
        return sums.written(added, totals[1:])[:longest], ends


@dataclass(frozen=True, slots=True)
class Design:
    """Two lessons: right answers until the model can add, then answers with mistakes until they are a habit."""

    habit: Habit
    pass_rates: tuple[float, float]  # the band in which the mean over the train problems has to lie
    able_at: float = 0.8  # expected pass rate from which on the first lesson is only settled
    most_steps: int = 4000  # until then
    settling_steps: int = 300  # at a falling learning rate
    habit_steps: int = 100  # at a constant learning rate, and as many at a falling one
    batch: int = 128
    learning_rate: float = 2e-3
    seed: int = 0


DESIGNS: Mapping[str, Design] = {
    "sum-easy": Design(Habit(forgotten_carry=0.25, slipped_digit=0.12), (0.3, 0.6)),
    "sum-hard": Design(Habit(forgotten_carry=0.35, slipped_digit=0.39), (0.02, 0.0625)),
    "sum-steps": Design(Habit(forgotten_carry=0.2, slipped_digit=0.08, rambling=0.08), (0.3, 0.45)),
}


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

    two_lessons(model, design, (often_plain, mistaken), probe)
    return model


def two_lessons(
    model: Any, design: Design, lessons: tuple[Callable[[], Example], Callable[[], Example]], probe: list[Problem]
) -> None:
    """Teach right answers until the model is able, and then the habit of mistakes."""
    right, mistaken = lessons
    rate = design.learning_rate
    rising = [rate * min(1.0, step / WARM_UP_STEPS) for step in range(1, design.most_steps + 1)]
    optimizer = _adamw(model)
    _teach(model, optimizer, rising, right, design.batch, lambda: _probed(model, probe) >= design.able_at)
    _teach(model, optimizer, _falling(rate, design.settling_steps), right, design.batch)
    _probed(model, probe)
    habit_rates = [rate / 2] * design.habit_steps + _falling(rate / 2, design.habit_steps)
    _teach(model, _adamw(model), habit_rates, mistaken, design.batch)
    _probed(model, probe)


def _teach(
    model: Any,
    optimizer: Any,
    learning_rates: Sequence[float],
    example: Callable[[], Example],
    batch: int,
    done: Callable[[], bool] = lambda: False,
) -> None:
    """Train on fresh examples, a step for each learning rate, unless it is `done` earlier."""
    import torch

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
    import torch

    return torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01)


def _falling(rate: float, steps: int) -> list[float]:
    return [rate * (steps - step) / steps for step in range(steps)]


def _probed(model: Any, probe: list[Problem]) -> float:
    rate = expected_pass_rate(model, probe)
    LOG.info("expected pass rate %.3f", rate)
    return rate
