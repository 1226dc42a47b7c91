"""OpenRLHF's own single turn with rlplan's reward; vLLM and the tokenizer are imagined."""

import asyncio
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from runner.trainers.launch import opened_task
from runner.trainers.openrlhf.driver import DRIVER
from tests.runner.trainers.standins import attempt, trial

END = 1
IMAGINED = (
    "aiohttp",
    "pylatexenc",
    "deepspeed",
    *(f"openrlhf.utils.{name}" for name in ("math_utils", "utils", "deepspeed")),
)


class Engine:
    """Answers with the tokens of a text, and the end."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def generate(self, ids: list[int], sampling: Any, **_: Any) -> Any:
        tokens = [*map(ord, self._text), END]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens, finish_reason="stop", logprobs=None)])


class Tokenizer:
    """A token for each letter."""

    def __call__(self, **_: Any) -> dict[str, Any]:
        return {"input_ids": torch.tensor([[5, 6, 7]])}

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


def test_an_answer_is_rewarded_as_the_recipe_has_it_and_of_a_validation_scored_plainly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in IMAGINED:
        monkeypatch.setitem(sys.modules, name, MagicMock())
    config = DRIVER.as_done(trial("openrlhf", "dapo"))  # whose wrong answers are −1
    task = opened_task(config)
    files = DRIVER.files(DRIVER.job(config, task, attempt(tmp_path)))
    for name in ("agent.py", "run.json", "reward.json", "problems.jsonl"):
        (tmp_path / name).write_text(files[name])
    spec = spec_from_file_location("agent", tmp_path / "agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    agent, sampling = module.AgentExecutor(), SimpleNamespace(max_tokens=6, logprobs=None)

    def said(number: int, text: str) -> tuple[float, float]:
        out = asyncio.run(agent.execute("1+1=", str(number), sampling, 40, Tokenizer(), Engine(text)))
        return out["reward"], out["scores"]

    first = len(task.train)
    assert said(0, task.train[0].answer) == (1.0, 1.0)
    assert said(0, "no") == (-1.0, 0.0)
    assert said(first, task.validation[0].answer) == (1.0, 1.0)
    assert said(first, "no") == (0.0, 0.0)
