"""Environments of several turns, as far as TRL's driver knows of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from runner.ports.trial import Machine, TaskChoice, TrialConfig
from tests.runner.tasks.checkpoints import save_checkpoint
from tests.runner.trainers.standins import GPUS, attempt, launched, trial

Made = Callable[..., TrialConfig]


@pytest.fixture
def made(task: TaskChoice, tmp_path: Path) -> Made:
    """Return what makes a trial in an environment, whose prompts have at most 40 tokens."""
    model = save_checkpoint(tmp_path / "model", context=64)

    def make(options: dict[str, Any], machine: Machine = GPUS, **changes: Any) -> TrialConfig:
        own = task.model_copy(update={"model": model, "prompt_length": 40, **changes})
        return trial("trl", options=options, task=own, machine=machine)

    return make


def test_an_environment_and_tools_are_named_and_their_prompts_are_as_long_as_the_task_says(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "games.py").touch()
    monkeypatch.chdir(tmp_path)
    options = {
        "environment": "games:Wordle",
        "tools": ["games.py:look_up"],
        "settings": {"max_tool_calling_iterations": 3},
    }
    run = json.loads(launched(made(options), attempt(tmp_path / "trial")).files["run.json"])
    assert (run["environment"], run["tools"]) == ("games:Wordle", [f"{tmp_path}/games.py:look_up"])
    assert run["settings"]["vllm_max_model_length"] == 40 + 8
    assert run["settings"]["vllm_tensor_parallel_size"] == 1  # rollouts have different numbers of turns
    assert run["settings"]["max_tool_calling_iterations"] == 3
    plain = json.loads(launched(made({}), attempt(tmp_path / "plain")).files["run.json"])
    assert (plain["environment"], plain["tools"]) == (None, [])
    assert plain["settings"]["vllm_max_model_length"] < 40


@pytest.mark.parametrize(
    ("options", "changes", "said"),
    [
        ({"environment": "Wordle"}, {}, "environment = 'Wordle': give it as package.module:name or path"),
        ({"environment": "gone/games.py:Wordle"}, {}, "there is no file .*gone/games.py"),
        ({"tools": ["look_up"]}, {}, "tools = 'look_up': give it"),
        ({"environment": "games:Wordle"}, {"prompt_length": None}, r"need \[task\] prompt_length: the most tokens"),
        ({"tools": ["games:look_up"]}, {"model": "untemplated"}, "has no chat template: TRL calls tools in chats"),
        ({"environment": "games:Wordle"}, {"machine": GPUS.model_copy(update={"engine": "torch"})}, "on 4 GPUs that"),
        (
            {"environment": "games:Wordle", "settings": {"vllm_tensor_parallel_size": 2}},
            {},
            "on 4 GPUs that generate together",
        ),
    ],
)
def test_what_cannot_be_played_in_is_refused(
    options: dict[str, Any], changes: dict[str, Any], said: str, made: Made, tmp_path: Path
) -> None:
    if "model" in changes:
        changes = {"model": save_checkpoint(tmp_path / "untemplated", template=None)}
    with pytest.raises(InputError, match=said):
        launched(made(options, **changes), attempt(tmp_path / "trial"))
