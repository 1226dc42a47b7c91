"""Trials of the stand-in whose updates take hundredths of a second."""

from typing import Any

from planner.config.trainer import Patience, TrainerChoice
from planner.recipes.schema import Recipe
from runner.ports.simulation import Costs, SimulationChoice
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan

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
