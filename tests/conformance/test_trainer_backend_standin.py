"""The stand-in, which is driven as a trainer from outside is, keeps the promises of the port."""

from collections.abc import Callable, Iterator

import pytest

from runner.ports.trial import TrialConfig
from runner.trainers.backend import DrivenBackend
from runner.trainers.standin.driver import driver
from tests.conformance.trainer_backend import *  # noqa: F403
from tests.runner.trainers.standins import standin_config


@pytest.fixture(params=[True, False], ids=["gated", "stopped"])
def config(request: pytest.FixtureRequest) -> TrialConfig:
    return standin_config(gated=request.param)


@pytest.fixture
def new_backend(config: TrialConfig) -> Iterator[Callable[[], DrivenBackend]]:
    made: list[DrivenBackend] = []

    def new() -> DrivenBackend:
        made.append(DrivenBackend(driver(config)))
        return made[-1]

    yield new
    for backend in made:
        backend.close()
