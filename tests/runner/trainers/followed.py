"""Trials as the tests of drivers with a data file of their own have them."""

from pathlib import Path

from planner.config.trainer import TrainerChoice
from planner.recipes import load_recipe
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.driver import Attempt

GPUS = Machine(gpus=4, device="cuda", engine="vllm", weights="bfloat16")


def trial(trainer: str, recipe: Recipe | str = "plain", options: dict[str, object] | None = None, **changes: object):
    plain = Recipe.model_validate({"name": "plain", "precision": {"fp32_head": False}, "advantage": {"scale": "none"}})
    known = recipe if isinstance(recipe, Recipe) else plain if recipe == "plain" else load_recipe(recipe)
    given = {
        "task": TaskChoice(name="sum-easy"),
        "recipe": known,
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 8,
        "learning_rate": 1e-4,
        "validation": ValidationPlan(problems=20, samples=2, every_rollouts=96),
        "machine": GPUS,
        "trainer": TrainerChoice(name=trainer, python="/opt/its/bin/python", options=options or {}, approximate=True),
    }
    return TrialConfig.model_validate({**given, **changes})


def attempt(folder: Path, **changes: object) -> Attempt:
    hosts = {"hosts": ("10.0.0.1", "10.0.0.2"), "gpus": ("0,1", "2,3")}
    given = {"folder": folder, "number": 1, "from_step": 0, "to_step": 6, "checkpoint": None, **hosts}
    return Attempt(**{**given, **changes})


def strict(config: TrialConfig) -> TrialConfig:
    """Return a trial that is to be trained exactly as it says."""
    assert config.trainer is not None
    return config.model_copy(update={"trainer": config.trainer.model_copy(update={"approximate": False})})
