"""`rlplan fit`: which points are fitted, what is answered in each format, and what is drawn."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.synthetic import draw
from planner.curves.curve import Curve
from rlplan.commands.fit_charts import BAND_POINTS, fit_charts
from rlplan.commands.fit_curves import fit_curves_of
from rlplan.requests.logs import FitRequest
from tests.rlplan.conftest import Run
from tests.rlplan.fit_samples import rising, write


def only(run: Run, *args: str) -> dict[str, Any]:
    """Return the one curve that is fitted."""
    (curve,) = run.json("fit", *args)["curves"]
    return curve


def test_a_window_is_a_part_of_the_x_range(run: Run, one: str) -> None:
    assert only(run, one, "--fit-fraction", "0.25")["used_points"] == 15
    found = only(run, one, "--fit-until", "20.5")
    assert found["used_points"] == 20
    assert [each["x"] for each in found["predictions"]] == [40, 80]  # twice and four times what was used


def test_what_lies_beyond_the_window_does_not_reach_the_fit(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    other = np.where(x > 30, 0.9 - y, y)
    first = only(run, str(write(tmp_path / "a.csv", x=x, y=y)), "--fit-until", "30")
    second = only(run, str(write(tmp_path / "b.csv", x=x, y=other)), "--fit-until", "30")
    assert first["parameters"] == second["parameters"]
    assert first["predictions"] == second["predictions"]


def test_predictions_go_where_they_are_asked_for_even_back_and_are_compared_with_what_came(run: Run, one: str) -> None:
    (end,) = only(run, one, "--fit-fraction", "0.5", "--predict-at", "end")["predictions"]
    assert (end["x"], end["observed"]) == pytest.approx(Curve.of("one", *rising()).end)
    found = only(run, one, "--predict-at", "30", "--predict-at", "1,000", "--predict-at", "end")
    assert [each["x"] for each in found["predictions"]] == pytest.approx([30, 1000, 57.05])
    assert not any("observed" in prediction for prediction in found["predictions"])
    (inside,) = (note for note in found["notes"] if "lies inside" in note)
    assert inside.startswith("x = 30 lies inside of what was fitted, which goes to 60 of 'gpu_hours'")


def test_columns_are_chosen_by_name(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    path = str(write(tmp_path / "named.csv", "tokens,loss,mine", x=x, loss=1 - y, y=y))
    found = only(run, path, "--x", "tokens", "--y", "mine")
    assert (found["x"], found["y"], found["points"]) == ("tokens", "mine", 60)
    assert only(run, path, "--y", "loss")["verdict"] in ("declining", "collapsed")


@pytest.mark.parametrize(("constant", "may_rise"), [(0.0, True), (0.5, True), (1.0, False), (12.0, True)])
def test_constant_scores_are_flat_and_a_late_start_is_named_where_the_interval_has_room_for_it(
    run: Run, tmp_path: Path, constant: float, may_rise: bool
) -> None:
    found = only(run, str(write(tmp_path / "constant.csv", x=rising()[0], y=np.full(60, constant))))
    assert found["verdict"] == "flat"
    assert found["evidence"].startswith("rose by 0 of the scale so far, within noise; ")
    assert ("a late start would look the same until it comes" in found["evidence"]) == may_rise
    assert (found["predictions"][-1]["high"] > constant + 0.01) == may_rise
    assert found["predictions"][0]["low"] <= constant <= found["predictions"][0]["high"]


def test_one_point_is_an_answer_with_a_wide_interval(run: Run, tmp_path: Path) -> None:
    found = only(run, str(write(tmp_path / "single.csv", x=[5.0], y=[0.4])), "--predict-at", "end")
    assert found["verdict"] == "not-identifiable"
    assert "not yet known" in run("fit", str(tmp_path / "single.csv")).out


def test_a_file_that_fails_does_not_hide_the_others(run: Run, tmp_path: Path, one: str) -> None:
    other = write(tmp_path / "other" / "two.csv")
    zero = write(tmp_path / "zero.csv", x=[0.0], y=[0.5])
    ran = run("fit", one, "missing.csv", str(zero), str(other), "--format", "json")
    assert ran.code == 2
    assert [curve["curve"] for curve in ran.json["curves"]] == ["one", "two"]
    assert ran.err.count("rlplan: ") == ran.err.count("\n") == 2
    assert "missing.csv" in ran.err
    assert "zero.csv" in ran.err


def test_curves_of_one_name_are_told_apart_by_their_folders(run: Run, tmp_path: Path) -> None:
    paths = [str(write(tmp_path / folder / "log.csv").relative_to(tmp_path)) for folder in ("n8", "n16")]
    renamed = [str(write(tmp_path / folder / "curve.csv").relative_to(tmp_path)) for folder in ("n8", "n16")]
    assert [curve["curve"] for curve in run.json("fit", *renamed)["curves"]] == ["n8/curve", "n16/curve"]
    assert [curve["curve"] for curve in run.json("fit", *paths)["curves"]] == ["n8", "n16"]


def test_the_size_of_the_evaluation_sets_the_noise_of_few_points(run: Run, tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("step,score\n" + "".join(f"{step},0.4\n" for step in (10, 20, 30, 40)))
    small, large = (
        run.json("fit", "few.csv", "--answers", answers)["curves"][0]["noise_sd"] for answers in ("64", "6400")
    )
    assert small > 3 * large


def test_a_forecast_as_wide_as_the_scale_is_no_number(run: Run, tmp_path: Path) -> None:
    x, y = np.arange(1, 41), np.random.default_rng(1).integers(0, 2, 40)
    out = " ".join(run("fit", str(write(tmp_path / "noise.csv", "step,score", x=x, y=y))).out.split())
    assert re.search(r"now\. Its score at step 160 is not yet known: 0\.\d+ to 1\.00\.", out)


def test_names_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    path = str(write(tmp_path / "run[red]$x$<b>.csv"))
    assert "run[red]$x$<b>" in run("fit", path, width=200).out
    assert run("fit", path, "--plot", "odd.html").code == 0
    assert "run[red]$x$&lt;b&gt;: " in (tmp_path / "odd.html").read_text()


def test_a_page_is_drawn_that_needs_nothing_else(run: Run, tmp_path: Path, one: str) -> None:
    ran = run("fit", one, "--fit-fraction", "0.5", "--predict-at", "end", "--cut", "3", "--plot", "fit.html")
    assert (ran.code, ran.err) == (0, "drew fit.html\n")
    page = (tmp_path / "fit.html").read_text()
    assert re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=", page) is None
    for name in ("used", "not used", "90 % band", "median of the fit", "prediction", "observed", "cut"):
        assert f'"name":"{name}"' in page


@pytest.mark.parametrize("shape", ["sigmoid", "collapse", "reward-scale"])
def test_the_band_holds_its_median_and_meets_the_predictions(tmp_path: Path, shape: str) -> None:
    curve = draw(shape, np.random.default_rng(3)).curve
    fits = fit_curves_of(FitRequest(write(tmp_path / "drawn.csv", x=curve.x, y=curve.y), fit_fraction=0.5))
    (chart,) = fit_charts(fits)
    traces = {trace["name"]: trace for trace in chart.figure["data"]}
    median, used, area = traces["median of the fit"], traces["used"], traces["90 % band"]
    high, low = np.array(area["y"][:BAND_POINTS]), np.array(area["y"][BAND_POINTS:])[::-1]
    assert len(median["x"]) == BAND_POINTS
    assert np.all(np.diff(median["x"]) >= 0)
    assert np.all((low <= median["y"]) & (median["y"] <= high))
    last = fits[0].predictions[-1]
    assert (median["x"][-1], low[-1], high[-1]) == pytest.approx((last.x, last.low, last.high))
    drawn = [trace for trace in traces.values() if trace["name"] in ("used", "not used", "before training")]
    assert sum(len(trace["x"]) for trace in drawn) == curve.x.size
    assert all(trace["x"][0] < used["x"].min() for trace in drawn if trace["name"] == "before training")
