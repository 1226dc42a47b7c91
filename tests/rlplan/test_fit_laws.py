"""`rlplan fit --law` and `rlplan compare`: known parameters come back, and what a table cannot tell is said."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.curves.family_samples import EASY, Sigmoid, curve_of, group_curve
from tests.rlplan.conftest import Run

SCALERL = Sigmoid(0.3, 0.61, 1.92, 2542.0)


def table(path: Path, header: str, rows: Iterable[Iterable[object]]) -> str:
    path.write_text(header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path.name


def rising(path: Path, until: float = 12_000, law: Sigmoid = SCALERL) -> str:
    curve = curve_of(law, np.linspace(until / 60, until, 60), noise=0.01, seed=2)
    return table(path, "gpu_hours,score", zip(curve.x, curve.y, strict=True))


def groups(path: Path, which: Iterable[int] = (8, 16, 32, 64, 128, 256, 512)) -> str:
    curves = {group: group_curve(group, EASY, 0.005) for group in which}
    rows = [(group, x, y) for group, curve in curves.items() for x, y in zip(curve.x, curve.y, strict=True)]
    return table(path, "rollouts_per_prompt,rollouts,score", rows)


def recipes(path: Path) -> str:
    laws = {"steady": (0.61, 2542.0), "early": (0.605, 1700.0), "low": (0.52, 2500.0)}
    rows = []
    for name, (asymptote, midpoint) in laws.items():
        for seed in (0, 1) if name == "steady" else (0,):
            curve = curve_of(
                Sigmoid(0.3, asymptote, 2.0, midpoint), np.linspace(200, 12_000, 60), 0.01, seed * 7 + len(name)
            )
            rows += [(name, seed, x, y) for x, y in zip(curve.x, curve.y, strict=True)]
    return table(path, "variant,seed,gpu_hours,score", rows)


def fitted(run: Run, law: str, *args: str) -> list[dict[str, Any]]:
    document = run.json("fit", "--law", law, *args)
    assert document["law"] == law
    return document["fits"]


@pytest.mark.parametrize(
    ("law", "make", "why"),
    [
        ("power", lambda path: rising(path, 1500), "A may lie between"),
        ("sigmoid", lambda path: table(path, "step,score", [(1, 0.2), (2, 0.3)]), "2 distinct x values"),
        ("group-size", lambda path: groups(path, (8,)), "1 values of n can be fitted"),
    ],
)
def test_a_table_that_cannot_tell_says_so_and_why(
    run: Run, tmp_path: Path, law: str, make: Callable[[Path], str], why: str
) -> None:
    ran = run("fit", "--law", law, make(tmp_path / "data.csv"), width=200)
    assert (ran.code, ran.err) == (0, "")
    assert "data: this table cannot tell" in ran.out
    assert why in ran.out.split("Why not")[1]


def test_laws_predict_where_they_are_asked_to(run: Run, tmp_path: Path) -> None:
    (fit,) = fitted(run, "sigmoid", rising(tmp_path / "one.csv"), "--fit-until", "8000", "--predict-at", "20000")
    (prediction,) = fit["predictions"]
    assert (prediction["series"], prediction["x"]) == ("", 20_000)
    assert prediction["low"] <= float(SCALERL.at(20_000)) <= prediction["high"]
    assert fit["points"] == 40
    (fit,) = fitted(run, "group-size", groups(tmp_path / "n.csv"), "--predict-at", "1e5", "--predict-at", "end")
    assert [each["series"] for each in fit["predictions"]] == ["n*", "n*"]
    assert fit["predictions"][0]["high"] < 32 < fit["predictions"][1]["low"]


def test_curves_of_several_files_are_one_table_where_a_law_goes_across_runs(run: Run, tmp_path: Path) -> None:
    names = [groups(tmp_path / f"{group}.csv", [group]) for group in (8, 64, 512)]
    (fit,) = fitted(run, "group-size", *names)
    assert fit["name"] == "3 tables"
    assert fit["parameters"].keys() == {"L", "k", "c0", "b"}


@pytest.mark.parametrize(("law", "make"), [("sigmoid", rising), ("group-size", groups)])
def test_laws_are_drawn(run: Run, tmp_path: Path, law: str, make: Callable[[Path], str]) -> None:
    path = make(tmp_path / "data.csv")
    assert run("fit", "--law", law, path, "--plot", "law.html").err == "drew law.html\n"
    page = (tmp_path / "law.html").read_text()
    assert '"name":"90 % band"' in page
    drawn = {"sigmoid": "used", "group-size": "median of the fit"}
    assert f'"name":"{drawn[law]}"' in page


def test_recipes_are_ranked_by_asymptote_and_ties_by_midpoint(run: Run, tmp_path: Path) -> None:
    path = recipes(tmp_path / "recipes.csv")
    found = run.json("compare", path, "--by", "variant")
    assert [(each["name"], each["tie_group"], each["runs"]) for each in found["recipes"]] == [
        ("early", 1, 1),
        ("steady", 1, 2),
        ("low", 2, 1),
    ]
    assert sum(each["probability_best"] for each in found["recipes"]) == pytest.approx(1)
    assert found["recipes"][2]["probability_tied"] < 0.01
    out = run("compare", path, "--by", "variant").out
    assert out.startswith("No measurable difference between early and steady (90 % interval ")
    assert "What would settle it: " in out
    assert "early is ranked first: it is within 0.02 of steady, and learns earlier." in " ".join(out.split())
    assert max(len(line) for line in out.splitlines()) <= 80
    rows = run("compare", path, "--by", "variant", "--format", "csv").rows
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert float(rows[0]["C_mid_median"]) < float(rows[1]["C_mid_low"])


def test_files_are_a_recipe_each_and_one_alone_is_no_comparison(run: Run, tmp_path: Path) -> None:
    for name, A in (("grpo", 0.5), ("dapo", 0.62)):
        rising(tmp_path / f"{name}.csv", law=Sigmoid(0.3, A, 1.92, 2542.0))
    ran = run("compare", "grpo.csv", "dapo.csv")
    assert re.match(r"dapo ends 0\.1\d higher than grpo \(90 % interval \+0\.0\d+ to \+0\.1\d\)", ran.out)
    assert "That is settled" in ran.out
    assert "all curves are of grpo: give two files" in run("compare", "grpo.csv").err
    table(tmp_path / "a.csv", "recipe,step,score", [("a", step, 0.01 * step) for step in range(1, 30)])
    assert "all curves are of a; add those of another" in run("compare", "a.csv", "--by", "recipe").err
