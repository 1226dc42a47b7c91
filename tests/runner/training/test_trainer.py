"""The trainer: its points, batches that grow, what it learns, and what ends it."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from planner.recipes.schema import Optimizer, Recipe, Schedule
from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Point, Segment
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from runner.training.collector import Collector
from runner.training.prompts import PromptStream
from runner.training.trainer import HealthWatch, validate
from runner.training.trial import METRICS, PointsFile, Stopwatch, read_points
from runner.training.updater import Updater
from tests.runner.tiny import tiny_config, tiny_model, tiny_task
from tests.runner.training.samples import ScriptedEngine, made_up_batch, right, wrong

WELL = {"loss": 0.1, "grad_norm": 1.0, "entropy": 0.5, "pass_rate": 0.5, "truncated_share": 0.0}
PLAN = ValidationPlan(problems=4, samples=4, every_rollouts=1)
N, B = 2, 8


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        ({"loss": math.nan}, ("nan-loss",)),
        ({"grad_norm": math.inf}, ("nan-loss",)),
        ({"truncated_share": 0.16}, ("truncation",)),
        ({"entropy": 0.001}, ()),  # one update that is certain is no sign, and neither is a poor one
        ({"pass_rate": 0.0}, ()),
    ],
)
def test_each_sign_has_its_flag(change: dict[str, float], flags: tuple[str, ...]) -> None:
    assert HealthWatch().flags(1, {**WELL, **change}) == flags


def test_a_validation_that_falls_is_a_flag_also_after_a_resume() -> None:
    health, other = HealthWatch(), HealthWatch()
    for step, score in enumerate((0.4, 0.5, 0.6, 0.6, 0.6)):
        health.flags(step, {**WELL, "pass_rate": score})
        assert health.scored(step, score, 0.01) == ()
    other.restore(health.state())

    fallen = [(each.scored(5, 0.3, 0.01), each.scored(6, 0.3, 0.01)) for each in (health, other)]

    assert fallen[0] == fallen[1]
    assert fallen[0][1] == ("validation-fall",)


def test_the_score_is_the_mean_over_problems_and_its_error_theirs() -> None:
    asked: list[int] = []

    def answer(prompt: Sequence[int], row: int) -> list[int]:
        asked.append(prompt[0])
        problem = (len(asked) - 1) // PLAN.samples
        return right(prompt) if row < problem else [*wrong(prompt)[:1], 5, 5, 5]  # 0, 1, 2, 3 of 4 are right

    result = validate(ScriptedEngine(answer), tiny_task(), PLAN, seed=0, step=0)
    rates = [0.0, 0.25, 0.5, 0.75]
    assert result.mean == pytest.approx(0.375)
    variance = sum((rate - 0.375) ** 2 for rate in rates) / 3
    assert result.standard_error == pytest.approx(math.sqrt(variance / 4))
    assert (result.best, result.worst) == (0.75, 0.0)
    assert result.further["best@4"] == (0.75, pytest.approx(0.25))
    assert result.further["best@2"][0] == pytest.approx((0 + 1 / 2 + 5 / 6 + 1) / 4)
    assert result.further["worst@2"][0] == pytest.approx((0 + 0 + 1 / 6 + 1 / 2) / 4)
    assert result.further["worst@4"] == (0.0, 0.0)
    assert result.truncated_share == pytest.approx(10 / 16)


def test_the_same_problems_are_asked_every_time_with_other_samples() -> None:
    engine = ScriptedEngine(lambda prompt, _: right(prompt))
    for step in (0, 10):
        assert validate(engine, tiny_task(), PLAN, seed=3, step=step).mean == 1.0
    one = ValidationPlan(problems=1, samples=2, every_rollouts=1)
    assert validate(engine, tiny_task(), one, seed=0, step=0).standard_error == 0.0
    assert engine.asked[0] == engine.asked[1]
    assert engine.seeds[0] != engine.seeds[1]


def kept(folder: Path, points: list[Point]) -> list[Point]:
    file = PointsFile(folder, None)
    for point in points:
        file.add(point)
    file.close()
    return read_points(folder)


def test_a_point_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    point = Point(1, 8, 32, 1.0, 0.1, 0.5, 0.02, {"loss": 0.1}, ("truncation",), {"best@4": (0.75, 0.01)})
    assert kept(tmp_path, [point]) == [point]


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    nan = float("nan")
    kept(tmp_path, [Point(1, 8, 32, 1.0, 0.1, metrics={"loss": nan}, further_scores={"best@4": (nan, 0.1)})])
    line = json.loads((tmp_path / METRICS).read_text())
    assert (line["metrics"], line["further_scores"]) == ({"loss": None}, {"best@4": [None, 0.1]})


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


def test_the_score_rises_within_the_first_rollouts(tmp_path: Path) -> None:
    config = TrialConfig(
        task=TaskChoice(name="sum-easy"),
        recipe=Recipe(name="grpo without KL"),
        rollouts_per_prompt=16,
        prompts_per_batch=16,
        learning_rate=3e-4,
        validation=ValidationPlan(problems=128, samples=4, every_rollouts=5120),
    )
    backend = BuiltinBackend()
    backend.start(config, tmp_path)
    scored = [point for point in backend.advance(Segment(20)) if point.score is not None]
    backend.close()
    first, last = scored[0], scored[-1]
    assert (first.rollouts, last.rollouts) == (0, 5120)
    assert 0.3 < first.score < 0.5
    assert last.score - first.score > 4 * last.score_standard_error
