"""The stand-in, which is driven as a trainer from outside is, keeps the promises of the port."""

from collections.abc import Callable, Iterator

import pytest

from runner.ports.trial import TrialConfig
from runner.trainers.backend import DrivenBackend
from runner.trainers.standin.driver import driver
from tests.conformance.trainer_backend import *  # noqa: F403
from tests.runner.trainers.standins import standin_config

TABLE = {
    "here": "/",
    "command": "mine {rollouts_per_prompt} {prompts_per_batch} {learning_rate} {to_step} {resume_from}",
    "metrics": {"format": "csv", "file": "log.csv", "columns": {"step": "update", "score": "accuracy"}},
    "checkpoints": {"pattern": "saved/step_{step}", "complete": "done-{step}"},
}


@pytest.fixture(
    params=[
        {},
        {"gated": False},
        {"stands_for": "trl"},
        {"stands_for": "openrlhf", "gated": False},
        {"stands_for": "skyrl", "gated": False},
        {"stands_for": "command", "options": TABLE},
        {"stands_for": "verl"},
    ],
    ids=["gated", "stopped", "trl", "openrlhf", "skyrl", "command", "verl"],
)
def config(request: pytest.FixtureRequest) -> TrialConfig:
    return standin_config(**request.param)


@pytest.fixture
def new_backend(config: TrialConfig) -> Iterator[Callable[[], DrivenBackend]]:
    made: list[DrivenBackend] = []

    def new() -> DrivenBackend:
        made.append(DrivenBackend(driver(config)))
        return made[-1]

    yield new
    for backend in made:
        backend.close()
