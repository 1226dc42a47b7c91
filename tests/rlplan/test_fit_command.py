from pathlib import Path

import numpy as np
import pytest

from planner.curves.curve import Curve
from tests.rlplan.conftest import Run
from tests.rlplan.fit_answers import curves, only, refused
from tests.rlplan.fit_samples import rising, write


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


def test_the_end_is_predicted_and_compared_with_what_came(run: Run, one: str) -> None:
    whole = Curve.of("one", *rising())
    (end,) = only(run, one, "--fit-fraction", "0.5", "--predict-at", "end")["predictions"]
    assert (end["x"], end["observed"]) == pytest.approx(whole.end)
    (seen,) = only(run, one, "--predict-at", "end")["predictions"]
    assert "observed" not in seen


def test_predictions_go_where_they_are_asked_for_even_back(run: Run, one: str) -> None:
    found = only(run, one, "--predict-at", "30", "--predict-at", "1,000", "--predict-at", "end")
    assert [each["x"] for each in found["predictions"]] == pytest.approx([30, 1000, 57.05])
    (inside,) = (note for note in found["notes"] if "lies inside" in note)
    assert inside.startswith("x = 30 lies inside of what was fitted, which goes to 60 of 'gpu_hours'")


def test_columns_are_chosen_by_name(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    path = str(write(tmp_path / "named.csv", "tokens,loss,mine", x=x, loss=1 - y, y=y))
    found = only(run, path, "--x", "tokens", "--y", "mine")
    assert (found["x"], found["y"], found["points"]) == ("tokens", "mine", 60)
    assert only(run, path, "--y", "loss")["verdict"] in ("declining", "collapsed")
    assert "unknown column 'nope'" in refused(run, path, "--y", "nope")
    assert "unknown column 'nope'" in refused(run, path, "--x", "nope")
    assert "unknown column 'nope'" in refused(run, path, "--by", "nope")


def test_points_in_any_order_and_twice_at_an_x_are_fitted(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    order = np.random.default_rng(1).permutation(60)
    shuffled = only(run, str(write(tmp_path / "shuffled.csv", x=x[order], y=y[order])), "--by", "")
    ordered = only(run, str(write(tmp_path / "ordered.csv", x=x, y=y)))
    assert shuffled["parameters"] == ordered["parameters"]
    repeated = write(tmp_path / "repeated.csv", x=np.repeat(x, 2), y=np.repeat(y, 2))
    assert only(run, str(repeated), "--by", "")["points"] == 120


def test_a_score_before_training_is_kept(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    found = only(run, str(write(tmp_path / "from-zero.csv", x=x - 1, y=y)), "--cut", "5")
    assert found["used_points"] == 56
    assert found["parameters"]["R0"]["high"] < 0.4


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
    assert [curve["curve"] for curve in curves(run, *renamed)] == ["n8/curve", "n16/curve"]
    assert [curve["curve"] for curve in curves(run, *paths)] == ["n8", "n16"]


def test_the_size_of_the_evaluation_sets_the_noise_of_few_points(run: Run, tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("step,score\n" + "".join(f"{step},0.4\n" for step in (10, 20, 30, 40)))
    small, large = (
        run("fit", "few.csv", "--answers", answers, "--format", "json").json["curves"][0]["noise_sd"]
        for answers in ("64", "6400")
    )
    assert small > 3 * large
