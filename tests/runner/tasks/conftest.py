from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.ports.task import Problem
from runner.tasks.rewards import ProcessReward

LIMIT = 0.4  # seconds
FUNCTION = f"{Path(__file__).with_name('reward_functions.py')}:act"
PROBLEM = Problem("p", "2 + 2?", "4", {"level": 7})


@pytest.fixture(scope="module")
def reward() -> Iterator[ProcessReward]:
    made = ProcessReward(FUNCTION, LIMIT, failed_score=0.125)
    made.start()
    yield made
    made.close()
