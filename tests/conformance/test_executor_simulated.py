"""The simulated executor keeps the promises of the port."""

from pathlib import Path

import pytest

from tests.conformance.executor import *  # noqa: F403
from tests.conformance.works import NewExecutor, Works
from tests.simulated.executor import SimulatedExecutor


@pytest.fixture(params=[0.0, 300.0], ids=["event-by-event", "gathered"])
def new_executor(request: pytest.FixtureRequest) -> NewExecutor:
    def new(workers: int) -> SimulatedExecutor:
        return SimulatedExecutor(workers=workers, gather_seconds=request.param)

    return new


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)
