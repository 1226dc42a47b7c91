"""A task of one's own, whose model has a chat template."""

import json

import pytest

from runner.ports.trial import TaskChoice
from tests.runner.tasks.checkpoints import save_checkpoint


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> TaskChoice:
    """A user's problems and a model with a chat template."""
    folder = tmp_path_factory.mktemp("task")
    rows = [{"prompt": f"what is 2 + {number}", "answer": "4"} for number in range(30)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = save_checkpoint(folder / "model")
    return TaskChoice(name=str(folder / "sums.jsonl"), model=model, reward="exact", max_response_tokens=8)
