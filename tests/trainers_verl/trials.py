"""Trials of the verl driver, and what it tells verl of them."""

from pathlib import Path
from typing import Any

from planner.config.trainer import TrainerChoice
from planner.recipes import load_recipe, recipe_names
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.ability import degree
from runner.trainers.driver import Attempt
from runner.trainers.driving import opened_task
from runner.trainers.verl.configuration import keys_of, words_of
from runner.trainers.verl.driver import JUDGE, _as_done

RECIPES = [name for name in recipe_names() if degree(JUDGE.differences(load_recipe(name))) != "refused"]


def trial(recipe: Recipe | str = "grpo", **changes: Any) -> TrialConfig:
    given = {
        "task": TaskChoice(name="sum-easy"),
        "recipe": load_recipe(recipe) if isinstance(recipe, str) else recipe,
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 6,
        "learning_rate": 1e-5,
        "validation": ValidationPlan(problems=20, samples=4, every_rollouts=48),
        "machine": Machine(device="cuda", gpus=8, nodes=2, weights="bfloat16"),
        "trainer": TrainerChoice(name="verl", approximate=True),
    }
    return TrialConfig.model_validate({**given, **changes})


def attempt(folder: Path, **changes: Any) -> Attempt:
    return Attempt(**{"folder": folder, "number": 1, "from_step": 0, "to_step": 4, "checkpoint": None, **changes})


def keys(config: TrialConfig, folder: Path, **changes: Any) -> dict[str, Any]:
    done = _as_done(config)
    return keys_of(done, opened_task(done), attempt(folder, **changes))


def words(config: TrialConfig, folder: Path, **changes: Any) -> list[str]:
    return words_of(keys(config, folder, **changes))
