"""The Python on the pages that no other test runs is run."""

import re
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from runner.trainers.base import FIRST
from runner.trainers.launch import opened_task
from tests.docs.examples import table
from tests.docs.lines import ROOT
from tests.runner.trainers.standins import trial

PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str) -> list[str]:
    return PYTHON.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def test_the_examples_of_extending_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table("runs.csv")(tmp_path)
    known: dict[str, object] = {"__name__": "extending"}
    for block in blocks("extending.md"):
        exec(compile(block, "extending.md", "exec"), known)
    score = known["score"]
    assert callable(score)
    assert [score({"answer": 4}, said) for said in ("4", "about 4", "5")] == [1.0, 0.5, 0.0]
    assert "rollouts_per_prompt" in capsys.readouterr().out


def test_the_driver_of_a_trainer_that_extending_shows_makes_its_keys() -> None:
    (text,) = (block for block in blocks("extending.md") if "ArealDriver" in block)
    names: dict[str, Any] = {"__name__": "areal"}
    exec(compile(text, "extending.md", "exec"), names)
    driver = names["DRIVER"]
    config = trial("skyrl", "cispo", {"example": "gsm8k.yaml"})  # an entry of TRAINERS, which AReaL is none of
    with pytest.raises(InputError, match=r"AReaL cannot train recipe 'cispo'.*objective.clip = 'cispo'"):
        driver.check(config)
    config = trial("skyrl", options={"example": "gsm8k.yaml"})
    driver.check(config)
    words = driver.job(config, opened_task(config), FIRST).words
    assert {"gconfig.n_samples=4", "train_dataset.batch_size=8", "actor.ppo_n_minibatches=1"} <= set(words)
    with pytest.raises(InputError, match=r"machine\.compile with --trainer skyrl: leave it out"):
        driver.check(config.model_copy(update={"machine": config.machine.model_copy(update={"compile": True})}))
    with pytest.raises(InputError, match="unknown key 'exampel'"):
        driver.check(trial("skyrl", options={"exampel": "gsm8k.yaml"}))
