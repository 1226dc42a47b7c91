"""Trials of the stand-in whose updates take hundredths of a second, and trials of trainers that are never started."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.config.trainer import Patience, TrainerChoice
from planner.recipes import load_recipe
from planner.recipes.schema import Recipe
from runner.ports.trial import Costs, Machine, SimulationChoice, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.catalogue import driver_of
from runner.trainers.driver import Attempt, Launch

COSTS = Costs(seconds_per_update=10.0, seconds_per_rollout=0.001, seconds_per_answer=0.01, start_up_seconds=10.0)
SCALE = 1000
PLAIN = Recipe.model_validate({"name": "plain", "precision": {"fp32_head": False}, "advantage": {"scale": "none"}})
FORM = "tests.trainer_forms.driver:FormDriver"
GPUS = Machine(gpus=4, device="cuda", engine="vllm", weights="bfloat16")


def form_of(trainer: str, options: Mapping[str, Any] | None = None, *, own_ray: bool = False) -> dict[str, Any]:
    """Return the options with which the stand-in writes another trainer's files, and that one's driver reads them."""
    of_it = {"trainer": trainer, "options": dict(options or {}), "own_ray": own_ray}
    return {"driver": FORM, "options": of_it}


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


def trial(
    trainer: str,
    /,
    recipe: Recipe | str = "plain",
    options: dict[str, Any] | None = None,
    *,
    approximate: bool = True,
    **changes: Any,
) -> TrialConfig:
    """Return a trial of 32 rollouts a step on four GPUs, scored in every third, that a named trainer is to train."""
    python = "/opt/its/bin/python"
    given = {
        "task": TaskChoice(name="sum-easy"),
        "recipe": recipe if isinstance(recipe, Recipe) else PLAIN if recipe == "plain" else load_recipe(recipe),
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 8,
        "learning_rate": 1e-4,
        "validation": ValidationPlan(problems=20, samples=2, every_rollouts=96),
        "machine": GPUS,
        "trainer": TrainerChoice(name=trainer, python=python, options=options or {}, approximate=approximate),
    }
    return TrialConfig.model_validate({**given, **changes})


def attempt(folder: Path, **changes: Any) -> Attempt:
    """Return the first start of a trial, up to step 6."""
    hosts = {"hosts": ("10.0.0.1", "10.0.0.2"), "gpus": ("0,1", "2,3")}
    given = {"folder": folder, "number": 1, "from_step": 0, "to_step": 6, "checkpoint": None, **hosts}
    return Attempt(**{**given, **changes})


def launched(config: TrialConfig, begun: Attempt, rank: int = 0) -> Launch:
    """Return what starts a trial's trainer on the host of a rank."""
    launch = driver_of(config).launch(config, begun, rank)
    assert launch is not None
    return launch
