"""The simulated backend keeps the promises of the port, with trials of a simulated world."""

import pytest

from runner.backends.simulated import SimulatedBackend
from runner.ports.trial import SimulationChoice, TrialConfig
from tests.conformance.trainer_backend import *  # noqa: F403
from tests.runner.trainers.standins import standin_config


@pytest.fixture
def new_backend() -> type[SimulatedBackend]:
    return SimulatedBackend


@pytest.fixture
def config() -> TrialConfig:
    return standin_config().model_copy(update={"trainer": None, "simulation": SimulationChoice(seed=5)})
