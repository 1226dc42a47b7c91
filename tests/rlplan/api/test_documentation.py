"""Every block of code in docs/python.md is executed, and every example of a docstring."""

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlplan
from rlplan.actions.interrupts import Interrupts
from tests.rlplan.recommend_sweeps import ended

DOCUMENT = Path(__file__).parents[3] / "docs" / "python.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_document_runs_from_its_first_to_its_last_line(
    tmp_path: Path, meanwhile: list[Callable[[Interrupts], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    ended(tmp_path / "rlplan.db")
    text = DOCUMENT.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        exec(compile("\n" * line + block[1], str(DOCUMENT), "exec"), names)
    assert "did you mean" in capsys.readouterr().out
    assert names["sweep"].status == "finished"
    assert Path("frontier.html").exists()
    assert Path("report.html").exists()


def test_the_example_of_a_function_is_true(tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db")
    (example,) = doctest.DocTestFinder(recurse=False).find(rlplan.open, "open", globs={"rlplan": rlplan})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
