"""A batch that grows: what each update trains on, and at what rate."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from planner.recipes.schema import Optimizer, Recipe, Schedule
from runner.training.collector import Collector
from runner.training.prompts import PromptStream
from runner.training.trial import Stopwatch
from runner.training.updater import Updater
from tests.runner.tiny import tiny_config, tiny_model, tiny_task
from tests.runner.training.batches import made_up_batch
from tests.runner.training.scripted import ScriptedEngine, right

N, B = 2, 8


def batches(updates: int, recipe: Recipe, **changes: Any) -> list[tuple[int, int]]:
    config = tiny_config(recipe, n=N, B=B, **changes)
    task = tiny_task()
    collector = Collector(config, task, ScriptedEngine(lambda prompt, _: right(prompt)), PromptStream(16, seed=0))
    together = config.recipe.schedule.updates_per_batch
    made = [batch for number in range(updates // together) for batch in collector.collect(number, Stopwatch())]
    return [(len(batch.prompts), batch.generated) for batch in made]


@pytest.mark.parametrize(
    ("together", "growth", "sizes"),
    [
        (1, "4x@2", [2, 2, 4, 4, 4, 8, 8, 8, 8]),
        (2, "4x@3", [2, 2, 2, 2, 4, 4, 4, 4, 8, 8]),
        (1, "none", [B, B]),
        (1, None, [B, B]),
    ],
)
def test_each_update_has_the_batch_that_its_number_asks_for(
    together: int, growth: str | None, sizes: list[int]
) -> None:
    recipe = Recipe(name="r", schedule=Schedule(updates_per_batch=together))
    assert batches(len(sizes), recipe, growth=growth) == [(size, N * size) for size in sizes]


def test_the_rate_follows_the_batch_from_one_generation_to_the_next() -> None:
    recipe = Recipe(name="r", optimizer=Optimizer(warmup_steps=0), schedule=Schedule(updates_per_batch=2))
    config = tiny_config(recipe, n=N, B=B, growth="4x@3", warmup_steps=None)
    updater = Updater(config, tiny_model(), None, 5)
    rates = [updater.update(made_up_batch(), step)["learning_rate"] for step in range(10)]
    sizes = [2, 2, 2, 2, 4, 4, 4, 4, 8, 8]
    assert rates == pytest.approx([1e-2 * math.sqrt(size / B) for size in sizes])
    warming = Updater(tiny_config(B=B, growth="4x", warmup_steps=2), tiny_model(), None, 5)
    assert warming.update(made_up_batch(), 0)["learning_rate"] == pytest.approx(1e-2 * 0.5 * 0.5)


@pytest.mark.parametrize(("given", "stored"), [("4x@32", "4x"), ("4.0x", "4x"), ("none", None), ("2x@5", "2x@5")])
def test_a_growth_is_stored_by_its_one_name(given: str, stored: str | None) -> None:
    assert tiny_config(growth=given).growth == stored
    with pytest.raises(ValidationError, match="growth 'slow' cannot be read"):
        tiny_config(growth="slow")
