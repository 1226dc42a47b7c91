"""The simulated backend keeps the promises of the port, with trials of a simulated world."""

import pytest

from planner.recipes.schema import Recipe
from runner.backends.simulated import SimulatedBackend
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from tests.conformance.trainer_backend import *  # noqa: F403


@pytest.fixture
def new_backend() -> type[SimulatedBackend]:
    return SimulatedBackend


@pytest.fixture
def config() -> TrialConfig:
    return TrialConfig(
        task=TaskChoice(name="simulated"),
        recipe=Recipe(name="plain"),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=1e-6,
        validation=ValidationPlan(problems=50, samples=4, every_rollouts=32),
        machine=Machine(gpus=2),
        simulation=SimulationChoice(seed=5),
    )
