"""Configurations of simulated trials for the tests of this folder."""

from typing import Any

from planner.recipes.schema import Recipe
from runner.ports.executor import Work
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan


def trial(
    choice: SimulationChoice | None = None, n: int = 8, B: int = 4, *, seed: int = 0, every: int = 64, **changes: Any
) -> TrialConfig:
    values: dict[str, Any] = {
        "task": TaskChoice(name="simulated"),
        "recipe": Recipe(name="plain"),
        "rollouts_per_prompt": n,
        "prompts_per_batch": B,
        "learning_rate": 1e-6,
        "seed": seed,
        "validation": ValidationPlan(problems=100, samples=4, every_rollouts=every),
        "simulation": choice,
        **changes,
    }
    return TrialConfig.model_validate(values)


def work(
    segment: int, config: TrialConfig, to_step: int, *, trial: int = 1, from_step: int = 0, **changes: Any
) -> Work:
    values: dict[str, Any] = {
        "segment": segment,
        "trial": trial,
        "attempt": 0,
        "config": config.model_dump(mode="json"),
        "folder": f"/trials/{trial}",
        "from_step": from_step,
        "to_step": to_step,
        "most_seconds": 1e9,
        **changes,
    }
    return Work(**values)
