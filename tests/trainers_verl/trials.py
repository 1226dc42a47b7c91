"""Trials of the verl driver, and what it tells verl of them."""

from pathlib import Path
from typing import Any

from planner.recipes import load_recipe, recipe_names
from runner.ports.trial import Machine, TrialConfig, ValidationPlan
from runner.trainers.capabilities import degree
from runner.trainers.keys import words as rendered_words
from runner.trainers.launch import opened_task
from runner.trainers.verl.driver import DRIVER
from tests.runner.trainers.standins import attempt
from tests.runner.trainers.standins import trial as named_trial

RECIPES = [name for name in recipe_names() if degree(DRIVER.differences(load_recipe(name))) != "refused"]


def trial(recipe: str = "grpo", **changes: Any) -> TrialConfig:
    machine = Machine(device="cuda", gpus=8, nodes=2, weights="bfloat16")
    validation = ValidationPlan(problems=20, samples=4, every_rollouts=96)
    return named_trial("verl", recipe, **{"machine": machine, "validation": validation, **changes})


def keys(config: TrialConfig, folder: Path, **changes: Any) -> dict[str, Any]:
    done = DRIVER.as_done(config)
    found: dict[str, Any] = DRIVER.job(done, opened_task(done), attempt(folder, **changes)).keys
    return found


def words(config: TrialConfig, folder: Path, **changes: Any) -> list[str]:
    return rendered_words(keys(config, folder, **changes), "hydra")
