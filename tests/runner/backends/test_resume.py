"""A run that is interrupted and resumed gives the same weights and metrics, to the bit, as one that was not."""

from itertools import pairwise
from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.recipes import load_recipe, recipe_names
from planner.recipes.schema import Filters, Recipe
from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Segment
from runner.ports.trial import Machine, TrialConfig
from runner.training import checkpoints
from tests.runner.backends.runs import resumed_alike, run, without_time
from tests.runner.tiny import tiny_config

pytestmark = pytest.mark.usefixtures("tiny_trials")

CURRICULUM = Recipe(name="curriculum", filters=Filters(curriculum="easy-to-hard", retire_at=0.4))
REFILLING = Recipe(name="refilling", filters=Filters(zero_variance="refill"))
SHIPPED = {name: load_recipe(name) for name in recipe_names()}
RECIPES = {**SHIPPED, "curriculum": CURRICULUM, "refilling": REFILLING}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_resumes_exactly(tmp_path: Path, name: str) -> None:
    config = tiny_config(RECIPES[name], warmup_steps=1, n=2)
    points = resumed_alike(config, tmp_path, 7, stops=(0, 2, 5) if name != "scalerl" else range(7))
    assert [point.optimizer_step for point in points] == list(range(8))


@pytest.mark.parametrize(  # in time, with batches that wait, with refills
    ("name", "stops"), [("grpo", (1,)), ("scalerl", (2, 3, 4)), ("refilling", (6,))]
)
def test_a_batch_that_grows_goes_on_growing(tmp_path: Path, name: str, stops: tuple[int, ...]) -> None:
    config = tiny_config(RECIPES[name], warmup_steps=1, n=2, B=4, growth="4x@1")
    points = resumed_alike(config, tmp_path, 8, stops)
    assert [point.metrics["prompts_per_batch"] for point in points[1:]] == [1, 2, 2, 4, 4, 4, 4, 4]
    every = config.validation.every_rollouts
    passed = [after.rollouts // every > before.rollouts // every for before, after in pairwise(points)]
    assert [point.score is not None for point in points] == [True, *passed]


def test_what_was_done_after_a_checkpoint_is_done_again_alike(tmp_path: Path) -> None:
    config = tiny_config()
    points, _ = run(config, tmp_path / "whole", 5)
    backend = BuiltinBackend()
    backend.start(config, tmp_path / "cut")
    list(backend.advance(Segment(2)))
    backend.checkpoint()
    lost = list(backend.advance(Segment(4)))
    backend.close()
    backend = BuiltinBackend()
    backend.restore(config, tmp_path / "cut")
    again = list(backend.advance(Segment(5)))
    assert without_time(again[:2]) == without_time(lost)
    assert without_time(again) == without_time(points[3:])


def test_a_checkpoint_of_another_configuration_is_refused_and_another_machine_told_about_the_bits(
    tmp_path: Path,
) -> None:
    run(tiny_config(), tmp_path, 1)
    changed = TrialConfig.model_validate({**dict(tiny_config()), "growth": "4x", "learning_rate": 0.02})
    with pytest.raises(InputError, match=r"growth was None and is '4x'; learning_rate was 0.01 and is 0.02\. Resume"):
        BuiltinBackend().restore(changed, tmp_path)
    given = tiny_config().model_dump(mode="json")
    before = {key: value for key, value in given.items() if key != "trainer"}
    assert checkpoints.compared(before, given) == []  # a setting that was not known yet has its default
    backend = BuiltinBackend()
    moved = TrialConfig.model_validate({**dict(tiny_config()), "machine": Machine(micro_batch_tokens=99)})
    assert backend.restore(moved, tmp_path) == 1
    assert backend.notes == ("machine.micro_batch_tokens was 64 and is 99: the run goes on, but not bit for bit",)
