"""The package as a user has it: its types, what importing it costs, and that its documentation is true."""

import doctest
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mypy import api

import rlplan
from budgets import errors
from rlplan.actions.interrupts import Interrupts
from tests.rlplan.recommend_sweeps import ended

DOCUMENT = Path(__file__).parents[3] / "docs" / "python.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
HEAVY = {"numpy", "sqlalchemy", "pydantic", "typer", "rich", "scipy", "torch", "ray", "pandas"}
SCRIPT = """
from pathlib import Path

import rlplan
from rlplan import Answer, Candidate, Fits, FittedLaws, Plan, RecipeComparison, RlplanError, Sweep


def best(budget: float) -> Candidate:
    plan: Plan = rlplan.propose(budget=budget, model="qwen3-8b", gpu="h100", gpus=64)
    return plan.best


def answer(path: Path) -> str:
    with rlplan.open(path) as book:
        sweep: Sweep = book.sweep()
        found: Answer = sweep.recommend(target=100.0)
    reveal_type(found.best.rollouts_per_prompt)
    return found.sentence


def fitted(path: Path) -> float:
    fits: Fits = rlplan.fit(path, predict_at=[100.0, "end"])
    laws: FittedLaws = rlplan.fit(path, law="power", level=0.8)
    recipes: RecipeComparison = rlplan.compare(path, by="recipe")
    return fits[0].predictions[0].mean + laws[0].parameters["A"].high + recipes[0].probability_best


def spent() -> float:
    try:
        sweep = rlplan.run(task="sum-easy", budget=0.03, workers=2)
    except RlplanError:
        sweep = rlplan.resume("sweep-1")
    return sweep.money.spent


rlplan.propose(budged=5000)
rlplan.nothing()
"""
# What the package is built on is not looked into: that would take half a minute.
SETTINGS = """[mypy]
strict = true
[mypy-runner.*,numpy.*,jinja2.*,sqlalchemy.*,scipy.*,torch.*,transformers.*,ray.*,pydantic.*,rich.*,optuna.*,typer.*,\
click.*,pandas.*,starlette.*,uvicorn.*,mcp.*,anyio.*,fsspec.*,psutil.*,mlflow.*,wandb.*,tensorboard.*]
follow_imports = skip
"""


def test_mypy_sees_the_types_of_the_package(tmp_path: Path) -> None:
    script, settings = tmp_path / "script.py", tmp_path / "mypy.ini"
    script.write_text(SCRIPT, encoding="utf-8")
    settings.write_text(SETTINGS, encoding="utf-8")
    cache = str(tmp_path / "cache")
    said, failure, _ = api.run(["--config-file", str(settings), "--cache-dir", cache, str(script)])
    assert failure == ""
    lines = [line for line in said.splitlines() if "script.py:" in line and "defined in" not in line]
    wanted = ('Revealed type is "int"', '"budged"', '"nothing"')
    assert len(lines) == len(wanted), said
    assert all(want in line for want, line in zip(wanted, lines, strict=True)), said


def modules_after(code: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_it_imports_nothing_heavy() -> None:
    assert not modules_after("import rlplan") & HEAVY


def test_every_error_can_be_caught_by_name() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    named = {name for name, home in rlplan._HOMES.items() if home == "budgets.errors"}
    assert raised - {"IllegalTransitionError", "MissingFileError"} == named
    assert all(issubclass(getattr(rlplan, name), rlplan.RlplanError) for name in named)


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
    assert Path("report.html").exists()


def test_the_example_of_a_function_is_true(tmp_path: Path) -> None:
    ended(tmp_path / "rlplan.db")
    (example,) = doctest.DocTestFinder(recurse=False).find(rlplan.open, "open", globs={"rlplan": rlplan})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
