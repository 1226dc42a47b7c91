"""Trials of the stand-in whose updates take hundredths of a second, and trials of trainers that are never started."""

from pathlib import Path
from typing import Any

from planner.config.trainer import Patience, TrainerChoice
from planner.recipes import load_recipe
from planner.recipes.schema import Recipe
from runner.ports.simulation import Costs, SimulationChoice
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.driver import Attempt

COSTS = Costs(seconds_per_update=10.0, seconds_per_rollout=0.001, seconds_per_answer=0.01, start_up_seconds=10.0)
SCALE = 1000


def standin_config(patience: Patience | None = None, **options: Any) -> TrialConfig:
    """Return a trial of 16 rollouts a step that is scored in every second one; updates take 0.01 s."""
    return TrialConfig(
        task=TaskChoice(name="simulated"),
        recipe=Recipe(name="plain"),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=1e-6,
        validation=ValidationPlan(problems=50, samples=4, every_rollouts=32),
        machine=Machine(gpus=2),
        simulation=SimulationChoice(seed=5, costs=COSTS),
        trainer=TrainerChoice(
            name="standin", patience=patience or Patience(), options={"time_scale": SCALE, **options}
        ),
    )


def driven(trainer: str, task: TaskChoice, recipe: str, *, approximate: bool = True, **changes: Any) -> TrialConfig:
    """Return a trial of 24 rollouts a step on four GPUs that a named trainer is to train."""
    options = changes.pop("options", {})
    given = {
        "task": task,
        "recipe": load_recipe(recipe),
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 6,
        "learning_rate": 1e-6,
        "seed": 7,
        "validation": ValidationPlan(problems=6, samples=2, every_rollouts=48),
        "machine": Machine(gpus=4, device="cuda", engine="vllm", weights="bfloat16"),
        "trainer": TrainerChoice(name=trainer, approximate=approximate, options=options, python="/opt/own/bin/python"),
    }
    return TrialConfig.model_validate({**given, **changes})


def attempt(folder: Path, **changes: Any) -> Attempt:
    """Return the first start of a trial, up to step 8."""
    given = {"folder": folder, "number": 1, "from_step": 0, "to_step": 8, "checkpoint": None, "gpus": ("2,3,4,5",)}
    return Attempt(**{**given, **changes})
