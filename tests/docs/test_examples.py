"""The Python on the pages that no other test runs is run."""

import re
from pathlib import Path

import pytest

from tests.docs.examples import table
from tests.docs.lines import ROOT

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
