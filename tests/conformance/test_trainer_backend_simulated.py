"""The simulated backend keeps the promises of the port, with trials of a surface and with recorded ones."""

from pathlib import Path

import pytest

from planner.recipes.schema import Recipe
from runner.backends.simulated import SimulatedBackend
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from tests.conformance.trainer_backend import *  # noqa: F403

# Scored in every second step, as the suite has it.
TABLE = """\
run,rollouts_per_prompt,prompts_per_batch,seed,step,gpu_hours,score,score_standard_error
a,4,4,0,0,0.1,0.30,0.02
a,4,4,0,2,0.9,0.45,0.02
a,4,4,0,4,1.8,0.52,0.02
a,4,4,0,6,2.5,0.55,0.02
a,4,4,0,40,20,0.60,0.02
"""


@pytest.fixture
def new_backend() -> type[SimulatedBackend]:
    return SimulatedBackend


@pytest.fixture(params=["surface", "table"])
def config(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TrialConfig:
    choice = SimulationChoice(seed=5)
    if request.param == "table":
        table = Path(tmp_path_factory.mktemp("tables")) / "runs.csv"
        table.write_text(TABLE)
        choice = SimulationChoice(kind="table", table=str(table))
    return TrialConfig(
        task=TaskChoice(name="simulated"),
        recipe=Recipe(name="plain"),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=1e-6,
        validation=ValidationPlan(problems=50, samples=4, every_rollouts=32),
        machine=Machine(gpus=2),
        simulation=choice,
    )
