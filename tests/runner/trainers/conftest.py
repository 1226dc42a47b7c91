"""A task of one's own, whose model has a chat template, and trials of every named trainer that can be run."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from planner.recipes.schema import Recipe
from runner.ports.trial import TaskChoice, TrialConfig
from tests.runner.tasks.checkpoints import save_checkpoint
from tests.runner.trainers.standins import trial

CHATS = ("prime-rl", "nemo-rl", "slime")  # which need such a model
MODEL_ARGS = """MODEL_ARGS=(
   --swiglu
   --num-layers 2  # of a small one
   --rotary-base "${MODEL_ARGS_ROTARY_BASE:-1000000}"
)
"""


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> TaskChoice:
    """A user's problems and a model with a chat template."""
    folder = tmp_path_factory.mktemp("task")
    rows = [{"prompt": f"what is 2 + {number}", "answer": "4"} for number in range(30)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = save_checkpoint(folder / "model")
    return TaskChoice(name=str(folder / "sums.jsonl"), model=model, reward="exact", max_response_tokens=8)


@pytest.fixture(scope="session")
def made(task: TaskChoice, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TrialConfig]:
    """Return what makes a trial of a named trainer, with the options that it cannot do without."""
    checkout = tmp_path_factory.mktemp("slime")
    (checkout / "small.sh").write_text(MODEL_ARGS)
    needed = {
        "nemo-rl": {"checkout": "/opt/RL"},
        "slime": {"checkout": str(checkout), "megatron": "/opt/Megatron-LM", "model_args": "small.sh"},
    }

    def make(trainer: str, recipe: Recipe | str = "plain", **changes: Any) -> TrialConfig:
        options = {**needed.get(trainer, {}), **changes.pop("options", {})}
        return trial(trainer, recipe, options, **({"task": task} if trainer in CHATS else {}) | changes)

    return make
