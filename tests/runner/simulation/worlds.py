"""Configurations of simulated trials for the tests of this folder."""

from typing import Any

from planner.recipes.schema import Recipe
from runner.ports.trial import SimulationChoice, TaskChoice, TrialConfig, ValidationPlan


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
