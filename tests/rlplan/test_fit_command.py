import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import rlplan.commands.fit
from planner.curves.curve import Curve
from planner.curves.synthetic import draw
from planner.curves.verdicts import Verdict
from rlplan.fit_output import compute, score
from rlplan.fit_plot import BAND_POINTS, MOST_PANELS, MOST_POINTS, columns, panels
from rlplan.fit_request import FitRequest
from rlplan.fitting import fit_files
from tests.rlplan.conftest import Run

CONTRACT_KEYS = {
    "curve",
    "points",
    "used_points",
    "verdict",
    "parameters",
    "noise_sd",
    "predictions",
    "fit_ms",
    "notes",
}
PNG_HEADER = b"\x89PNG\r\n\x1a\n"


def rising(points: int = 60, seed: int = 7) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x = np.arange(1.0, points + 1)
    noise = np.random.default_rng(seed).normal(0, 0.01, points)
    return x, 0.2 + 0.5 / (1 + (0.3 * points / x) ** 2) + noise


def write(path: Path, header: str = "gpu_hours,score", **columns: object) -> Path:
    x, y = rising()
    values = columns or {"x": x, "y": y}
    rows = zip(*(np.asarray(each).tolist() for each in values.values()), strict=True)
    path.parent.mkdir(exist_ok=True)
    path.write_text(header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


@pytest.fixture
def one(tmp_path: Path) -> str:
    return str(write(tmp_path / "one.csv"))


def curves(run: Run, *args: str) -> list[dict[str, object]]:
    ran = run("fit", *args, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["curves"]


def only(run: Run, *args: str) -> dict:
    (curve,) = curves(run, *args)
    return curve


def refused(run: Run, *args: str) -> str:
    ran = run("fit", *args)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("rlplan: ")
    assert ran.err.count("\n") == 1
    return ran.err


def test_json_has_the_fields_of_the_contract(run: Run, one: str) -> None:
    curve = only(run, one)
    assert set(curve) >= CONTRACT_KEYS
    assert (curve["curve"], curve["points"], curve["used_points"]) == ("one", 60, 60)
    assert (curve["x"], curve["y"], curve["file"]) == ("gpu_hours", "score", one)
    assert curve["verdict"] in {verdict.value for verdict in Verdict}
    assert set(curve["parameters"]) == {"R0", "A", "B", "C_mid"}
    for interval in curve["parameters"].values():
        assert set(interval) == {"median", "low", "high"}
        assert interval["low"] <= interval["median"] <= interval["high"]
    for prediction in curve["predictions"]:
        assert set(prediction) >= {"x", "mean", "low", "high", "level"}
        assert 0 <= prediction["low"] <= prediction["mean"] <= prediction["high"] <= 1
        assert prediction["level"] == 0.9
    assert curve["noise_sd"] > 0
    assert curve["fit_ms"] > 0
    assert all(isinstance(note, str) for note in curve["notes"])


def test_without_being_asked_it_predicts_at_twice_and_four_times_what_was_used(run: Run, one: str) -> None:
    assert [each["x"] for each in only(run, one)["predictions"]] == [120, 240]
    assert [each["x"] for each in only(run, one, "--fit-until", "30")["predictions"]] == [60, 120]


def test_a_window_is_a_part_of_the_x_range(run: Run, one: str) -> None:
    assert only(run, one, "--fit-fraction", "0.25")["used_points"] == 15
    assert only(run, one, "--fit-until", "20.5")["used_points"] == 20
    assert only(run, one, "--fit-fraction", "1")["used_points"] == 60


def test_what_lies_beyond_the_window_does_not_reach_the_fit(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    other = np.where(x > 30, 0.9 - y, y)
    first = only(run, str(write(tmp_path / "a.csv", x=x, y=y)), "--fit-until", "30", "--cut", "auto")
    second = only(run, str(write(tmp_path / "b.csv", x=x, y=other)), "--fit-until", "30", "--cut", "auto")
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


def test_the_level_widens_the_intervals(run: Run, one: str) -> None:
    wide, narrow = (only(run, one, "--level", level)["predictions"][-1] for level in ("0.98", "0.5"))
    assert (wide["level"], narrow["level"]) == (0.98, 0.5)
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]


def test_a_cut_leaves_early_points_out(run: Run, one: str) -> None:
    found = only(run, one, "--cut", "10")
    assert (found["points"], found["used_points"], found["cut"]) == (60, 51, 10)
    assert any("left out" in note for note in found["notes"])
    assert only(run, one, "--cut", "0")["used_points"] == 60


def test_the_cut_of_its_own_choice_leaves_out_a_bad_beginning(run: Run, tmp_path: Path) -> None:
    x, y = rising(200)
    dipped = np.where(x <= 8, 0.9, y)
    assert only(run, str(write(tmp_path / "dipped.csv", x=x, y=dipped)), "--cut", "auto")["cut"] >= 0
    assert only(run, str(write(tmp_path / "few.csv", x=x[:8], y=y[:8])), "--cut", "auto")["cut"] == 0


def test_the_published_cut_is_in_gpu_hours(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    assert only(run, str(write(tmp_path / "long.csv", x=100 * x, y=y)), "--cut", "published")["used_points"] == 46
    steps = str(write(tmp_path / "steps.csv", "step,score", x=100 * x, y=y))
    assert "'step'" in refused(run, steps, "--cut", "published")
    assert "published is 1,500 GPU-hours" in refused(run, steps, "--cut", "published")
    assert "before 1500 leaves no point" in refused(run, str(write(tmp_path / "short.csv")), "--cut", "published")


def test_columns_are_chosen_by_name(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    path = str(write(tmp_path / "named.csv", "tokens,loss,mine", x=x, loss=1 - y, y=y))
    found = only(run, path, "--x", "tokens", "--y", "mine")
    assert (found["x"], found["y"], found["points"]) == ("tokens", "mine", 60)
    assert only(run, path, "--y", "loss")["verdict"] in ("declining", "collapsed")
    assert "unknown column 'nope'" in refused(run, path, "--y", "nope")
    assert "unknown column 'nope'" in refused(run, path, "--x", "nope")
    assert "unknown column 'nope'" in refused(run, path, "--by", "nope")


def test_mixed_curves_are_told_apart(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    twice = {"arm": ["a"] * 60 + ["b"] * 60, "x": np.tile(x, 2), "y": np.concatenate([y, y / 2])}
    found = curves(run, str(write(tmp_path / "mixed.csv", "arm,step,score", **twice)), "--by", "arm")
    assert len(found) == 2
    assert {curve["curve"].removeprefix("mixed")[1:] for curve in found} == {"a", "b"}
    assert [curve["points"] for curve in found] == [60, 60]
    assert "--by arm" in refused(run, str(tmp_path / "mixed.csv"))


def test_percentages_are_noticed_and_divided_when_asked_to(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    path = str(write(tmp_path / "percent.csv", "step,accuracy", x=x, y=100 * y))
    assert any("--percent" in note for note in only(run, path)["notes"])
    found = only(run, path, "--percent")
    assert not any("--percent" in note for note in found["notes"])
    assert found["predictions"][0]["high"] <= 1


def test_points_that_cannot_be_fitted_are_dropped_with_a_note(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    y[3], y[5], x[0] = np.inf, -np.inf, -4
    found = only(run, str(write(tmp_path / "odd.csv", x=x, y=y)), "--by", "")
    assert found["used_points"] == 57
    assert any("not finite" in note for note in found["notes"])
    assert any("negative" in note for note in found["notes"])


def test_missing_scores_are_no_points(run: Run, tmp_path: Path) -> None:
    x, y = rising()
    y[::2] = np.nan
    assert only(run, str(write(tmp_path / "every-second.csv", x=x, y=y)))["points"] == 30


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


@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0, 12.0])
def test_constant_scores_are_flat(run: Run, tmp_path: Path, constant: float) -> None:
    found = only(run, str(write(tmp_path / "constant.csv", x=rising()[0], y=np.full(60, constant))))
    assert found["verdict"] == "flat"
    assert found["predictions"][0]["low"] <= constant <= found["predictions"][0]["high"]


def test_one_point_is_an_answer_with_a_wide_interval(run: Run, tmp_path: Path) -> None:
    found = only(run, str(write(tmp_path / "single.csv", x=[5.0], y=[0.4])), "--predict-at", "end")
    assert found["verdict"] == "not-identifiable"
    assert "not yet known" in run("fit", str(tmp_path / "single.csv")).out


def test_a_million_points_are_read_fitted_and_drawn(run: Run, tmp_path: Path) -> None:
    x = np.arange(1, 1_000_001)
    y = 0.3 + 0.4 * x / (x + 100_000) + 0.02 * np.sin(x)
    path = tmp_path / "million.csv"
    path.write_text("step,score\n" + "\n".join(f"{at},{value:.4f}" for at, value in zip(x, y, strict=True)) + "\n")
    fits = fit_files([path], FitRequest())
    assert fits.curves[0].fit.used_points == 1_000_000
    assert fits.curves[0].fit.verdict.value in ("rising", "saturated")
    assert panels(fits.curves, 0.9)[0].used.x.size <= MOST_POINTS


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"step,score\n", "no rows"),
        (b"step,score\n0,0.5\n", "no usable point at positive x"),
        (b"step,score\n-2,0.5\n-1,0.6\n", "no usable point at positive x"),
        (b"step,score\n1,inf\n2,inf\n", "no usable point at positive x"),
        (b"step,score\n1,nan\n2,nan\n", "score"),
        (b"\x00\x01\x02\x03", "not UTF-8"),
        (b"name,colour\na,red\nb,blue\n", "score"),
    ],
)
def test_a_file_without_a_curve_is_refused_in_a_line(run: Run, tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert says in refused(run, str(path))


def test_what_is_no_file_is_refused_in_a_line(run: Run, tmp_path: Path) -> None:
    assert "no file 'missing.csv'" in refused(run, "missing.csv")
    (tmp_path / "folder").mkdir()
    assert "folder" in refused(run, str(tmp_path / "folder"))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--fit-fraction", "0.5", "--fit-until", "3"], "--fit-fraction 0.5 and --fit-until 3"),
        (["--fit-fraction", "0"], "--fit-fraction 0:"),
        (["--fit-fraction", "1.5"], "--fit-fraction 1.5:"),
        (["--fit-fraction", "nan"], "--fit-fraction 'nan'"),
        (["--fit-fraction", "half"], "--fit-fraction 'half'"),
        (["--fit-fraction", "0.001"], "leaves no point of curve 'one': its 60 points go from x = 1 to 60"),
        (["--fit-until", "-3"], "--fit-until -3:"),
        (["--fit-until", "inf"], "--fit-until inf:"),
        (["--fit-until", "0.5"], "--fit-until 0.5 leaves no point"),
        (["--predict-at", "later"], "--predict-at 'later'"),
        (["--predict-at", "0"], "--predict-at '0'"),
        (["--predict-at", "nan"], "--predict-at 'nan'"),
        (["--cut", "early"], "--cut 'early'"),
        (["--cut", "-1"], "--cut '-1'"),
        (["--cut", "1000"], "leaves no point"),
        (["--level", "90"], "--level 90"),
        (["--level", "most"], "--level 'most'"),
        (["--plot", "fit.svg"], "--plot fit.svg"),
        (["--plot", "nowhere/fit.png"], "no folder 'nowhere'"),
        (["--format", "xml"], "xml"),
    ],
)
def test_a_bad_flag_is_refused_in_a_line(run: Run, one: str, flags: list[str], says: str) -> None:
    assert says in refused(run, one, *flags)


def test_a_file_that_fails_does_not_hide_the_others(run: Run, tmp_path: Path, one: str) -> None:
    other = write(tmp_path / "other" / "two.csv")
    zero = write(tmp_path / "zero.csv", x=[0.0], y=[0.5])
    ran = run("fit", one, "missing.csv", str(zero), str(other), "--format", "json")
    assert ran.code == 2
    assert [curve["curve"] for curve in json.loads(ran.out)["curves"]] == ["one", "two"]
    assert ran.err.count("rlplan: ") == ran.err.count("\n") == 2
    assert "missing.csv" in ran.err
    assert "zero.csv" in ran.err


def test_curves_of_one_name_are_told_apart_by_their_folders(run: Run, tmp_path: Path) -> None:
    paths = [str(write(tmp_path / folder / "log.csv").relative_to(tmp_path)) for folder in ("n8", "n16")]
    renamed = [str(write(tmp_path / folder / "curve.csv").relative_to(tmp_path)) for folder in ("n8", "n16")]
    assert [curve["curve"] for curve in curves(run, *renamed)] == ["n8/curve", "n16/curve"]
    assert [curve["curve"] for curve in curves(run, *paths)] == ["n8", "n16"]


def test_csv_has_a_row_for_every_prediction(run: Run, tmp_path: Path, one: str) -> None:
    two = str(write(tmp_path / "two.csv"))
    asked = ["--fit-fraction", "0.5", "--predict-at", "end", "--predict-at", "100"]
    found = curves(run, one, two, *asked)
    rows = list(csv.DictReader(io.StringIO(run("fit", one, two, *asked, "--format", "csv").out)))
    assert [(row["curve"], float(row["x"])) for row in rows] == [
        (curve["curve"], prediction["x"]) for curve in found for prediction in curve["predictions"]
    ]
    assert float(rows[0]["observed"]) == found[0]["predictions"][0]["observed"]
    assert rows[1]["observed"] == ""
    assert float(rows[0]["A_median"]) == found[0]["parameters"]["A"]["median"]


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_fits_the_terminal_and_says_more_where_there_is_room(run: Run, one: str, width: int) -> None:
    out = run("fit", one, "--fit-fraction", "0.5", "--predict-at", "end", "--predict-at", "1000", width=width).out
    assert max(len(line) for line in out.splitlines()) <= width
    heading = next(line for line in out.splitlines() if line.startswith("curve"))
    assert ("noise" in heading) == ("observed" in heading) == (width == 200)
    assert "30/60" in out
    assert "at 1,000" in heading
    assert "of the scale" in out
    assert "\x1b[" not in out


def test_the_table_of_long_names_still_fits(run: Run, tmp_path: Path) -> None:
    paths = [str(write(tmp_path / f"{'qwen2.5-math-7b-' * 4}{i}.csv")) for i in range(6)]
    out = run("fit", *paths, "--fit-fraction", "0.4", "--predict-at", "end").out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "6 curves of 6 files" in out
    assert "Why" not in out
    assert "…" not in out


def test_no_column_is_cut_off_at_80_columns(run: Run, tmp_path: Path) -> None:
    x, y = rising(1200)
    long = write(tmp_path / "a-name-that-takes-several-lines.csv", x=x, y=30 * y)
    short = write(tmp_path / "a-name-like-that-for-few-points.csv", x=x[:8], y=y[:8])
    out = run("fit", str(long), str(short), "--fit-fraction", "0.4", "--predict-at", "end").out
    assert "480/1,200" in out
    assert "identifiable" in out
    rows = [line for line in out.splitlines() if re.search(r" \d+/\d", line)]
    assert len(rows) == 2
    assert all(row.endswith((")", "not yet known")) for row in rows)
    assert next(line for line in out.splitlines() if line.startswith("curve")).endswith(" A")


def test_names_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    path = str(write(tmp_path / "run[red]$x$<b>.csv"))
    assert "run[red]$x$<b>" in run("fit", path, width=200).out
    assert run("fit", path, "--plot", "odd.png").code == 0
    assert run("fit", path, "--plot", "odd.html").code == 0
    assert "run[red]$x$&lt;b&gt;: " in (tmp_path / "odd.html").read_text()


@pytest.mark.parametrize("flags", [[], ["--fit-fraction", "0.5", "--predict-at", "end", "--cut", "3"]])
def test_a_png_is_drawn(run: Run, tmp_path: Path, one: str, flags: list[str]) -> None:
    ran = run("fit", one, *flags, "--plot", "fit.png")
    assert (ran.code, ran.err) == (0, "drew fit.png\n")
    assert (tmp_path / "fit.png").read_bytes().startswith(PNG_HEADER)


def test_a_page_is_drawn_that_needs_nothing_else(run: Run, tmp_path: Path, one: str) -> None:
    ran = run("fit", one, "--fit-fraction", "0.5", "--predict-at", "end", "--cut", "3", "--plot", "fit.html")
    assert (ran.code, ran.err) == (0, "drew fit.html\n")
    page = (tmp_path / "fit.html").read_text()
    assert re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=", page) is None
    for name in ("used", "not used", "90 % band", "median of the fit", "prediction", "observed", "cut"):
        assert f'"name":"{name}"' in page


def test_a_page_has_at_most_so_many_panels_and_says_so(run: Run, tmp_path: Path) -> None:
    names = [f"run-{i}" for i in range(MOST_PANELS + 2)]
    x, y = rising(10)
    many = {"run": np.repeat(names, 10), "x": np.tile(x, len(names)), "y": np.tile(y, len(names))}
    ran = run("fit", str(write(tmp_path / "many.csv", "run,step,score", **many)), "--plot", "many.png")
    assert ran.err == "drew many.png: the first 24 curves, without 2 more\n"
    assert f"{len(names)} curves of 1 file" in ran.out


def test_a_plot_that_cannot_be_written_is_explained(run: Run, tmp_path: Path, one: str) -> None:
    (tmp_path / "taken.png").mkdir()
    ran = run("fit", one, "--plot", "taken.png")
    assert ran.code == 2
    assert "--plot taken.png cannot be written" in ran.err


@pytest.mark.parametrize("shape", ["sigmoid", "collapse", "zero", "reward-scale", "late-start"])
def test_the_band_holds_its_median_and_meets_the_predictions(tmp_path: Path, shape: str) -> None:
    curve = draw(shape, np.random.default_rng(3)).curve
    fits = fit_files([write(tmp_path / "drawn.csv", x=curve.x, y=curve.y)], FitRequest(fraction=0.5))
    (panel,) = panels(fits.curves, 0.9)
    band = panel.band
    assert band.x.size == BAND_POINTS
    assert np.all(np.diff(band.x) >= 0)
    assert np.all((band.low <= band.median) & (band.median <= band.high))
    last = panel.predictions[-1]
    assert (band.x[-1], band.low[-1], band.high[-1]) == pytest.approx((last.x, last.low, last.high))
    assert panel.used.x.size + panel.unused.x.size == curve.x.size
    assert panel.leftmost < panel.used.x[panel.used.x > 0].min()


@pytest.mark.parametrize(("count", "wide"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (24, 4)])
def test_panels_form_a_grid(count: int, wide: int) -> None:
    assert columns(count) == wide


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0, "0.00"), (0.634, "0.63"), (-1.5, "-1.50"), (0.0012, "0.0012"), (0.00004, "4.0e-05"), (42.13, "42.1")],
)
def test_scores_have_the_digits_they_deserve(value: float, written: str) -> None:
    assert score(value) == written


def test_large_scores_and_computes_stay_within_a_column() -> None:
    assert (score(1234.5), score(2.5e7), compute(0.25), compute(60), compute(16_670_720)) == (
        "1,234",
        "2.5e+07",
        "0.25",
        "60",
        "16.7M",
    )


def test_fit_imports_nothing_heavy_at_the_top() -> None:
    names = set(vars(rlplan.commands.fit))
    assert not names & {"planner", "numpy", "scipy", "plotly", "matplotlib", "rich"}


def test_help_names_the_command(run: Run) -> None:
    assert " fit " in run("--help").out
    assert "Example: rlplan fit run.csv" in run("fit", "--help").out


def test_the_size_of_the_evaluation_sets_the_noise_of_few_points(run: Run, tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("step,score\n" + "".join(f"{step},0.4\n" for step in (10, 20, 30, 40)))
    small, large = (
        json.loads(run("fit", "few.csv", "--answers", answers, "--format", "json").out)["curves"][0]["noise_sd"]
        for answers in ("64", "6400")
    )
    assert small > 3 * large


@pytest.mark.parametrize(
    ("answers", "message"),
    [("many", "--answers 'many' is not a whole number"), ("0", "--answers 0: it must be at least 1"), ("2.5", "whole")],
)
def test_an_evaluation_has_answers(run: Run, tmp_path: Path, answers: str, message: str) -> None:
    (tmp_path / "few.csv").write_text("step,score\n10,0.4\n20,0.5\n")
    ran = run("fit", "few.csv", "--answers", answers)
    assert ran.code == 2
    assert message in ran.err


def test_rewards_have_no_binomial_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "reward.csv").write_text("step,reward\n10,-1\n20,5\n")
    ran = run("fit", "reward.csv", "--answers", "100")
    assert ran.code == 2
    assert "only pass rates have a binomial error" in ran.err
