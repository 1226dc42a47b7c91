"""The stand-in, and the drivers of trainers whose files it writes, keep the promises of the port."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.config.trainer import Patience
from runner.ports.backend import Segment
from runner.ports.trial import TrialConfig
from runner.trainers.backend import DrivenBackend
from runner.trainers.checkpoints import FOLDER
from runner.trainers.standin.driver import driver
from tests.conformance.trainer_backend import *  # noqa: F403
from tests.runner.trainers.standins import form_of, standin_config

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
        form_of("trl"),
        form_of("openrlhf") | {"gated": False},
        form_of("skyrl") | {"gated": False},
        form_of("command", TABLE),
        form_of("verl"),
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


def test_one_that_is_asked_to_stop_before_it_has_seen_the_gate_open_goes_on_waiting(tmp_path: Path) -> None:
    config = standin_config(Patience(stop_seconds=20.0))
    backend = DrivenBackend(driver(config))
    backend.start(config, tmp_path)
    try:
        list(backend.advance(Segment(6)))
        list(backend.advance(Segment(400, lambda: True)))  # asked at the first look
        list(backend.advance(Segment(backend.checkpoint().step + 2)))
    finally:
        backend.close()

    assert [path.name for path in (tmp_path / FOLDER).glob("attempt-*.log")] == ["attempt-1.log"]
