"""From prompts to batches: their order, their scores, and responses that are interrupted."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError, TrainingError
from planner.recipes import load_recipe
from planner.recipes.schema import Filters, Interruptions, Recipe, Rewards, Schedule
from runner.policy.scorer import Batch
from runner.ports.engine import Interruption
from runner.ports.task import Closing, Problem, Scores, Task
from runner.ports.trial import TrialConfig, ValidationPlan
from runner.tasks.embedded import EMBEDDED, embedded_task
from runner.training.collector import Collector, interruption_of
from runner.training.prompts import PromptStream
from runner.training.trainer import validate
from runner.training.trial import Stopwatch
from tests.runner.tiny import DIGITS, END, Digits, tiny_config, tiny_task
from tests.runner.training.samples import Answer, ScriptedEngine, right, wrong

N, B = 4, 6
CLOSED = 12  # no digit: the tests' phrase, which decodes to nothing


@given(st.integers(1, 40), st.lists(st.integers(1, 15), min_size=1, max_size=20))
def test_each_pass_asks_every_prompt_once(count: int, batches: list[int]) -> None:
    stream = PromptStream(count, seed=3)
    asked = [index for batch in batches for index in stream.take(batch)]
    for first in range(0, len(asked) - count + 1, count):
        assert sorted(asked[first : first + count]) == list(range(count))


@given(st.integers(2, 30), st.integers(0, 60), st.integers(1, 30))
def test_a_restored_stream_goes_on_where_the_other_stopped(count: int, before: int, after: int) -> None:
    stream = PromptStream(count, seed=1, retire_at=0.9)
    taken = stream.take(before)
    stream.record(taken, 4, [1.0 if index % 3 == 0 else 0.5 for index in taken])
    other = PromptStream(count, seed=1, retire_at=0.9)
    other.restore(stream.state())
    assert other.take(after) == stream.take(after)
    assert (other.epoch, other.retired) == (stream.epoch, stream.retired)


def test_seeds_and_passes_shuffle_differently() -> None:
    stream = PromptStream(50, seed=1)
    assert stream.take(50) != stream.take(50)
    assert PromptStream(50, seed=1).take(50) != PromptStream(50, seed=2).take(50)


def test_easy_prompts_come_first_and_equals_are_shuffled() -> None:
    rates = [0.1, 0.9, 0.5, 0.9, 0.9, 0.9]
    stream = PromptStream(6, seed=1, pass_rates=rates)
    passes = [stream.take(6) for _ in range(8)]
    assert all([rates[index] for index in one] == [0.9, 0.9, 0.9, 0.9, 0.5, 0.1] for one in passes)
    assert len({tuple(one[:4]) for one in passes}) > 1


def test_a_mastered_prompt_retires_by_its_whole_history() -> None:
    stream = PromptStream(4, seed=1, retire_at=0.9)
    stream.record([0, 1], 8, [1.0, 0.5])
    stream.record([1], 8, [1.0])  # 0.75 in all
    assert stream.retired == 1
    assert 0 not in stream.take(40)
    stream.record([1, 2, 3], 100, [1.0, 0.95, 0.9])
    assert stream.retired == 4
    assert sorted(stream.take(4)) == [0, 1, 2, 3]  # when all are mastered, all are asked


def mixed(prompt: Sequence[int], row: int) -> list[int]:
    """Answer prompts below 3 rightly, those of 7 and more wrongly, and the others half and half."""
    if prompt[0] < 3:
        return right(prompt)
    return right(prompt) if prompt[0] < 7 and row % 2 else wrong(prompt)


def collected(answer: Answer, **recipe: object) -> tuple[list[Batch], ScriptedEngine, PromptStream]:
    config = tiny_config(Recipe.model_validate({"name": "r", **recipe}), n=N, B=B)
    task, engine = tiny_task(), ScriptedEngine(answer)
    stream = PromptStream(len(task.train), seed=0, retire_at=config.recipe.filters.retire_at)
    return Collector(config, task, engine, stream).collect(0, Stopwatch()), engine, stream


def informative(prompt: Sequence[int]) -> bool:
    return 3 <= prompt[0] < 7


def test_groups_without_signal_are_kept_unless_told() -> None:
    (batch,), engine, _ = collected(mixed)
    assert batch.prompts == engine.asked[0]
    assert (batch.rows, batch.generated) == (N * B, N * B)
    silent = [not informative(prompt) for prompt in batch.prompts]
    assert batch.measured["zero_variance_share"] == pytest.approx(sum(silent) / B)
    zero = (batch.advantages.view(B, N) == 0).all(dim=1).tolist()
    assert zero == silent


def test_dropped_groups_cost_and_are_measured_but_not_trained_on() -> None:
    (batch,), engine, _ = collected(mixed, filters=Filters(zero_variance="drop"))
    assert batch.prompts == [prompt for prompt in engine.asked[0] if informative(prompt)]
    assert batch.rows == N * len(batch.prompts) < batch.generated == N * B
    assert batch.generated_tokens == 2 * N * B
    plain = collected(mixed)[0][0].measured
    assert batch.measured == plain  # scores of runs with other filters stay comparable


def test_refilling_goes_on_until_the_batch_is_full() -> None:
    (batch,), engine, _ = collected(mixed, filters=Filters(zero_variance="refill"))
    assert len(batch.prompts) == B
    assert all(informative(prompt) for prompt in batch.prompts)
    assert len(engine.asked) > 1
    assert batch.generated == N * sum(len(asked) for asked in engine.asked)
    assert len(set(engine.seeds)) == len(engine.seeds)
    assert batch.measured["generation_rounds"] == len(engine.asked)


def test_refilling_gives_up_and_trains_on_what_there_is() -> None:
    (batch,), engine, _ = collected(
        lambda prompt, _: right(prompt), filters=Filters(zero_variance="refill", most_refills=3)
    )
    assert len(engine.asked) == 3
    assert batch.rows == 0
    assert batch.generated == 3 * N * B


def test_one_generation_serves_several_updates() -> None:
    batches, engine, _ = collected(mixed, schedule=Schedule(updates_per_batch=3))
    assert len(engine.asked) == 1
    assert [batch.prompts for batch in batches] == [engine.asked[0][i : i + B] for i in (0, B, 2 * B)]
    assert [batch.generated for batch in batches] == [N * B] * 3


def test_a_batch_filled_with_difficulty_shares_its_cost_among_its_updates() -> None:
    filters = Filters(zero_variance="refill")
    batches, engine, _ = collected(mixed, filters=filters, schedule=Schedule(updates_per_batch=2))
    generated = N * sum(len(asked) for asked in engine.asked)
    assert sum(batch.generated for batch in batches) == generated
    assert max(batch.generated for batch in batches) - min(batch.generated for batch in batches) <= 1


def test_the_stream_hears_how_prompts_were_answered() -> None:
    _, engine, stream = collected(mixed, filters=Filters(retire_at=0.9))
    assert stream.retired == sum(prompt[0] < 3 for prompt in engine.asked[0])


def test_truncated_responses_are_shaped_and_masked_as_the_recipe_says() -> None:
    def endless(prompt: Sequence[int], row: int) -> list[int]:
        return [prompt[0]] * 9 if row == 0 else mixed(prompt, row)

    rewards = Rewards(overlong_share=0.5, mask_truncated=True)
    (batch,), _, _ = collected(endless, rewards=rewards)
    first = torch.arange(batch.rows) % N == 0
    assert batch.measured["truncated_share"] == 1 / N
    assert not batch.loss_mask[first].any()
    assert torch.equal(batch.loss_mask[~first], batch.mask[~first])
    plain = collected(endless)[0][0].measured
    assert plain["pass_rate"] == batch.measured["pass_rate"]
    assert batch.measured["reward"] == pytest.approx(plain["reward"] - 1 / N)  # −1 for a quarter of them


class Encoding(Digits):
    def encode(self, text: str) -> list[int]:
        return [int(character) if character.isdigit() else CLOSED for character in text]


class Remembering:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def score(self, problems: list[Problem], responses: list[str]) -> Scores:
        self.asked += [(problem.answer, text) for problem, text in zip(problems, responses, strict=True)]
        return Scores(
            [float(text.startswith(problem.answer)) for problem, text in zip(problems, responses, strict=True)], {}
        )

    def close(self) -> None: ...


def closing(phrase: str = "98", **changes: object) -> Recipe:
    settings = {"earliest": 0.25, "latest": 0.5, "phrase": phrase, "closed_by": "9", **changes}
    return Recipe(name="closing", interruptions=Interruptions.model_validate(settings))


def task_of(response: int = 12, closing: Closing | None = Closing()) -> Task:  # noqa: B008 (it is frozen)
    return replace(tiny_task(response=response), tokenizer=Encoding(), reward=Remembering(), closing=closing)


def config_of(recipe: Recipe) -> TrialConfig:
    return tiny_config(recipe, n=2, B=3)


def interrupted(prompt: list[int], row: int) -> list[int]:
    """Answer rightly after a phrase, or wrongly without one."""
    other = (prompt[0] + 1) % DIGITS
    return [other, other, other, CLOSED, prompt[0], END] if row else [other, END]


def test_shares_of_the_longest_length_become_tokens() -> None:
    assert interruption_of(closing(), task_of(12)) == Interruption((9, 8), 3, 6, (9,))
    assert interruption_of(closing(latest=None), task_of(10)) == Interruption((9, 8), 3, 3, (9,))
    study = load_recipe("scalerl").interruptions
    long = interruption_of(closing(earliest=study.earliest, latest=study.latest), task_of(14_336))
    assert long is not None
    assert (long.earliest, long.latest) == (10_000, 12_000)


def test_of_the_embedded_tasks_the_one_with_steps_is_interrupted() -> None:
    tasks = {name: embedded_task(name) for name in EMBEDDED}
    scalerl = {name: interruption_of(load_recipe("scalerl"), task) for name, task in tasks.items()}
    assert {name for name, found in scalerl.items() if found} == {"sum-steps"}
    found, task = scalerl["sum-steps"], tasks["sum-steps"]
    assert interruption_of(load_recipe("grpo"), task) is None
    assert found is not None
    assert found.phrase == found.closed_by == tuple(task.tokenizer.encode(";="))
    longest = max(len(task.tokenizer.encode(problem.answer.rpartition("=")[2])) for problem in task.train)
    assert found.latest + len(found.phrase) + longest + 1 <= task.max_response_tokens, "a sum and its end have room"


def test_a_phrase_that_leaves_no_room_says_how_much_it_needs() -> None:
    with pytest.raises(
        InputError, match=r"at most 6 tokens after 2 to 3, with a phrase of 4 .* at least 12 tokens"
    ) as told:
        interruption_of(closing("9876"), task_of(6))
    assert "interruptions.earliest = 'none'" in str(told.value)
    assert interruption_of(closing("9876"), task_of(12)) is not None
    with pytest.raises(InputError, match="has the end token of the model"):
        interruption_of(closing("9876"), replace(task_of(), tokenizer=Ending()))


class Ending(Encoding):
    end_id = 8


def test_forced_tokens_are_outside_of_the_loss_and_the_answer_after_them_within() -> None:
    recipe, task = closing("c", closed_by="c"), task_of()
    stream = PromptStream(len(task.train), seed=0)
    (batch,) = Collector(config_of(recipe), task, ScriptedEngine(interrupted), stream).collect(0, Stopwatch())
    assert batch.measured["interrupted_share"] == 0.5
    assert batch.measured["pass_rate"] == 0.5
    long = torch.arange(batch.rows) % 2 == 1
    assert torch.equal(batch.loss_mask[~long], batch.mask[~long])
    assert batch.loss_mask[long].tolist() == [[True, True, True, False, True, True]] * int(long.sum())
    assert batch.mask[long].all()
    plain = Collector(config_of(Recipe(name="r")), task, ScriptedEngine(interrupted), stream)
    assert "interrupted_share" not in plain.collect(0, Stopwatch())[0].measured


@pytest.mark.parametrize(
    ("closing_", "expected"),
    [
        (Closing(), [("6", "7"), ("6", "6")]),
        (Closing(answer=lambda answer: answer + "!"), [("6", "7"), ("6!", "6")]),
        (Closing(alone=False), [("6", "7"), ("6", "7776")]),
    ],
    ids=["alone", "another-answer", "whole"],
)
def test_the_reward_sees_what_follows_the_phrase_but_a_users_function_all_of_it(
    closing_: Closing, expected: list[tuple[str, str]]
) -> None:
    task = task_of(closing=closing_)
    plan = ValidationPlan(problems=1, samples=2, every_rollouts=1)
    validate(ScriptedEngine(interrupted), task, plan, 0, 0, Interruption((CLOSED,), 3, 3))
    assert task.reward.asked == expected


@pytest.mark.parametrize("kinds", [{"timed-out": 3}, {"raised": 4}, {"out-of-range": 6}])
def test_an_update_most_of_whose_rewards_failed_is_not_trained_on(kinds: dict[str, int]) -> None:
    class Failing(Remembering):
        def score(self, problems: list[Problem], responses: list[str]) -> Scores:
            notes = tuple(f"problem 'p': {kind}: it hurts" for kind in kinds)
            return replace(super().score(problems, responses), failures=kinds, notes=notes)

    task = replace(task_of(), reward=Failing())
    collector = Collector(
        config_of(closing()), task, ScriptedEngine(interrupted), PromptStream(len(task.train), seed=0)
    )
    refused = pytest.raises(TrainingError, match=r"4 of 6 rewards failed, .*: problem 'p': raised: it hurts")
    with refused if "raised" in kinds else nullcontext():
        (batch,) = collector.collect(0, Stopwatch())
        assert batch.measured["failed_reward_share"] == (0.5 if "timed-out" in kinds else 0.0)
