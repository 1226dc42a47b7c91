"""Fits and replays of what is given from Python."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import rlplan
from bench.synthetic import draw
from tests.planner.replay.tables import grid
from tests.rlplan.conftest import Run
from tests.rlplan.fit_samples import write
from tests.rlplan.test_replay_command import write as write_runs

DRAWN = draw("sigmoid", np.random.default_rng(1)).curve
ROWS = [
    {"run": name, "gpu_hours": x, "score": y}
    for name, start in (("a", 0), ("b", 1))
    for x, y in zip(DRAWN.x.tolist()[start::2], DRAWN.y.tolist()[start::2], strict=True)
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
FORMS: dict[str, Callable[[], Any]] = {
    "rows": lambda: ROWS,
    "columns": lambda: COLUMNS,
    "pandas": lambda: pandas.DataFrame(ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_is_fitted_as_its_file_is(form: str) -> None:
    pandas.DataFrame(ROWS).to_csv("frame.csv", index=False)
    of_file = rlplan.fit("frame.csv", by="run", predict_at=100)
    fits = rlplan.fit(FORMS[form](), by="run", predict_at=100)
    assert [fit.curve for fit in fits] == ["frame/a", "frame/b"]
    assert [fit.predictions for fit in fits] == [fit.predictions for fit in of_file]
    assert fits["frame/b"].verdict == of_file[1].verdict


def test_arrays_are_fitted() -> None:
    pair, columns = (rlplan.fit(data)[0] for data in ((DRAWN.x, DRAWN.y), np.column_stack([DRAWN.x, DRAWN.y])))
    assert pair.predictions == columns.predictions
    assert [each.x for each in pair.predictions] == [2 * DRAWN.x[-1], 4 * DRAWN.x[-1]]
    (percent,) = rlplan.fit((DRAWN.x, 100 * DRAWN.y), percent=True)
    assert percent.predictions[0].mean == pytest.approx(pair.predictions[0].mean)


def test_a_fit_is_what_the_command_prints(run: Run, tmp_path: Path) -> None:
    path = str(write(tmp_path / "one.csv"))
    fits = rlplan.fit(path, fit_fraction=0.5, predict_at=["end", 100], level=0.8)
    flags = ("--fit-fraction", "0.5", "--predict-at", "end", "--predict-at", "100", "--level", "0.8")
    printed = run.json("fit", path, *flags)
    document = fits.to_dict()
    for each in (*printed["curves"], *document["curves"]):
        each.pop("fit_ms")
    assert document == printed
    (fit,) = fits
    assert fit.observed[0] is not None
    rows = fits.table()[1]
    assert [row["x"] for row in rows] == [prediction.x for prediction in fit.predictions]
    assert rows[0]["A_median"] == fit.parameters["A"].median
    assert rows[1]["observed"] is None
    assert fit.curve in repr(fits)


def test_a_law_is_what_the_command_prints(run: Run, tmp_path: Path) -> None:
    path = str(write(tmp_path / "one.csv"))
    laws = rlplan.fit(path, law="sigmoid", predict_at=100, level=0.8)
    printed = json.loads(
        run("fit", path, "--law", "sigmoid", "--predict-at", "100", "--level", "0.8", "--format", "json").out
    )
    assert laws.to_dict() == printed
    (law,) = laws
    assert [row["what"] for row in laws.table()[1]] == ["R0", "A", "B", "C_mid", "prediction"]
    assert "LawFit of one: R0=" in repr(law)
    with pytest.raises(rlplan.InputError, match="law group-size needs 'rollouts_per_prompt'"):
        rlplan.fit(path, law="group-size")


def test_recipes_in_a_frame_are_compared() -> None:
    rows = [
        {"recipe": row["run"], "gpu_hours": row["gpu_hours"], "score": row["score"] / (2 if row["run"] == "b" else 1)}
        for row in ROWS
    ]
    compared = rlplan.compare(rows, by="recipe")
    assert [(each.name, each.rank) for each in compared] == [("a", 1), ("b", 2)]
    assert compared[0].probability_best > 0.9
    assert compared.difference.settled
    assert compared.to_dict()["recipes"][0]["name"] == "a"
    assert compared.table()[1][1]["tie_group"] == 2
    assert "a ends " in repr(compared)
    with pytest.raises(rlplan.InputError, match="Name a column of 'frame' with --by"):
        rlplan.compare(rows, by="variety")


def test_a_file_that_fails_does_not_hide_the_others(tmp_path: Path) -> None:
    fits = rlplan.fit([write(tmp_path / "one.csv"), tmp_path / "none.csv"])
    assert len(fits) == len(fits[:]) == 1
    assert len(fits.failures) == 1
    assert "none.csv" in fits.failures[0]


@pytest.mark.parametrize(
    ("data", "given", "said"),
    [
        (3, {}, "int is nothing that can be fitted"),
        ([], {}, "list is nothing that can be fitted"),
        ("none.csv", {}, "no file 'none.csv'"),
        (([1, 2], [0.1]), {}, "2 x values and 1 scores"),
        (([1, 2], ["a", "b"]), {}, "scores are no plain list of numbers"),
        ({"x": [1, 2], "y": [1]}, {}, "columns differ in length"),
        ({"x": "text"}, {}, "column 'x' is a str"),
        (pandas.DataFrame(), {}, "holds no rows"),
        (ROWS, {"y": "nothing"}, "Name a column of 'frame' with y"),
        (ROWS, {"fit_fraction": 3}, "^fit_fraction=3: it must be above 0 and at most 1"),
        (ROWS, {"predict_at": -1}, "^predict_at='-1'"),
        (ROWS, {"fit_fraction": 0.5, "fit_until": 3}, "^fit_fraction=0.5 and fit_until=3 both"),
    ],
)
def test_what_cannot_be_fitted_is_refused(data: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(rlplan.InputError, match=said) as raised:
        rlplan.fit(data, **given)
    assert "--" not in str(raised.value)


def test_a_replay_of_a_frame_is_that_of_its_file(run: Run, tmp_path: Path) -> None:
    path = write_runs(tmp_path / "runs.csv", grid(cells=8, seeds=2, points=20), recipe=True)
    given: dict[str, Any] = {"budget": "20%", "target": 100, "policy": "asha", "repeat": 2}
    of_file, of_frame = rlplan.replay(path, **given), rlplan.replay(pandas.read_csv(path), **given)
    assert of_file.to_dict() == of_frame.to_dict()
    flags = ("--budget", "20%", "--target", "100", "--policy", "asha", "--repeat", "2")
    assert run.json("replay", path, *flags) == json.loads(json.dumps(of_file.to_dict()))
    trace = of_file.to_dict()["trace"]
    assert [mark.regret for mark in of_file.first.trace] == [mark["regret"] for mark in trace]
    assert "axis_recipe" in of_file.table()[0]
    assert max(len(repr(each)) for each in (of_file, of_file.played[0])) <= 1000
    assert of_file.notes == of_frame.notes


def test_a_comparison_is_summed_up_in_a_whole_sentence(tmp_path: Path) -> None:
    curves = [{"recipe": f"{'a long name ' * 6}{each}", "x": x, "score": x / 99} for each in "ab" for x in range(9)]
    found = rlplan.compare(curves, by="recipe")
    assert re.search(r"^<RecipeComparison: .*interval .* to .*\)\.>$", repr(found))


def test_what_is_watched_shows_itself_without_waiting_for_its_run(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("step,score\n" + "".join(f"{x},{x / 99}\n" for x in range(9)))
    followed, now = (rlplan.watch(tmp_path / "run.csv", once=once) for once in (False, True))
    assert "run.csv: iterate over it" in repr(followed)
    assert [row["x"] for row in now.table()[1]] == list(range(9))


def test_an_error_names_two_arguments_as_they_are_written() -> None:
    with pytest.raises(rlplan.InputError, match="x=NAME y=NAME"):
        rlplan.fit({"a": [1, 2], "b": [1, 2]})
