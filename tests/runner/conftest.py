from pathlib import Path

import pytest

from runner.ports.task import Task
from runner.ports.trial import TaskChoice
from runner.training import components
from tests.runner.tiny import save_tiny_model, tiny_task


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_model(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture
def tiny_trials(monkeypatch: pytest.MonkeyPatch, tiny_checkpoint: str) -> Task:
    """Make every trial of this process train on the tiny task."""
    task = tiny_task(tiny_checkpoint)

    def opened(_choice: TaskChoice, _seed: int, _validation_problems: int) -> Task:
        return task

    monkeypatch.setattr(components, "open_task", opened)
    return task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "trial"
