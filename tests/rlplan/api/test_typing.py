"""A script of a user is checked by mypy, strictly, against the package as it is installed."""

from pathlib import Path

from mypy import api

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
rlplan.open().sweep().plot("heart")
rlplan.nothing()
"""
# What the package is built on is not looked into: that would take half a minute.
SETTINGS = """[mypy]
strict = true
[mypy-runner.*,numpy.*,narwhals.*,jinja2.*,starlette.*,sqlalchemy.*,scipy.*,torch.*,transformers.*,ray.*,polars.*,pydantic.*,plotly.*,rich.*,optuna.*]
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
    wanted = ('Revealed type is "int"', '"budged"', "Literal['heart']", '"nothing"')
    assert len(lines) == len(wanted), said
    assert all(want in line for want, line in zip(wanted, lines, strict=True)), said
