from collections.abc import Sequence

import pytest
import torch

from planner.recipes.schema import Filters, Recipe, Rewards, Schedule
from runner.policy.scorer import Batch
from runner.training.collector import Collector
from runner.training.prompts import PromptStream
from runner.training.trial import Stopwatch
from tests.runner.tiny import tiny_config, tiny_task
from tests.runner.training.scripted import Answer, ScriptedEngine, right, wrong

N, B = 4, 6


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
