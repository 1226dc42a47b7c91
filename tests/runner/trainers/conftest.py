"""A task of one's own, whose model has a chat template, and trials of every named trainer that can be run."""

import json
from collections.abc import Callable
from pathlib import Path
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
SHAPES = {  # of their config.json
    "4b": (2560, 36, 32, 8, 9728),
    "8b": (4096, 36, 32, 8, 12288),
    "32b": (5120, 64, 64, 8, 25600),
    "72b": (8192, 80, 64, 8, 29568),
}


def save_shape(folder: Path, size: str) -> str:
    """Write a model without weights, whose config.json is of such a size; return its folder."""
    save_checkpoint(folder)
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    config: dict[str, Any] = dict(zip(names, SHAPES[size], strict=True))
    config |= {"head_dim": 128, "tie_word_embeddings": False, "model_type": "qwen3"}
    config |= {"vocab_size": 151936, "max_position_embeddings": 40960}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


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
