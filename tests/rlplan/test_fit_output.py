import re
from pathlib import Path

import numpy as np
import pytest

from bench.synthetic import draw
from planner.curves.verdicts import Verdict
from rlplan.actions.fitting import fit_curves_of
from rlplan.charts.fit_panels import BAND_POINTS, MOST_POINTS, curve_panels
from rlplan.requests.elsewhere import FitRequest
from tests.rlplan.conftest import Run
from tests.rlplan.fit_answers import curves, only
from tests.rlplan.fit_samples import write

KEYS = {"curve", "points", "used_points", "verdict", "parameters", "noise_sd", "predictions", "fit_ms", "notes"}


def test_json_has_the_fields_of_the_contract(run: Run, one: str) -> None:
    curve = only(run, one)
    assert set(curve) >= KEYS
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


def test_csv_has_a_row_for_every_prediction(run: Run, tmp_path: Path, one: str) -> None:
    two = str(write(tmp_path / "two.csv"))
    asked = ["--fit-fraction", "0.5", "--predict-at", "end", "--predict-at", "100"]
    found = curves(run, one, two, *asked)
    rows = run("fit", one, two, *asked, "--format", "csv").rows
    assert [(row["curve"], float(row["x"])) for row in rows] == [
        (curve["curve"], prediction["x"]) for curve in found for prediction in curve["predictions"]
    ]
    assert float(rows[0]["observed"]) == found[0]["predictions"][0]["observed"]
    assert rows[1]["observed"] == ""
    assert float(rows[0]["A_median"]) == found[0]["parameters"]["A"]["median"]


@pytest.mark.parametrize("width", [80, 200])
def test_the_table_fits_the_terminal_and_says_more_where_there_is_room(run: Run, one: str, width: int) -> None:
    out = run(
        "fit", one, "--fit-fraction", "0.5", "--predict-at", "end", "--predict-at", "1000", "--explain", width=width
    ).out
    assert max(len(line) for line in out.partition("\nNext")[0].splitlines()) <= width
    heading = next(line for line in out.splitlines() if line.startswith("curve"))
    assert ("noise" in heading) == ("observed" in heading) == (width == 200)
    assert "30/60" in out
    assert "at 1,000" in heading
    assert "of the scale" in out
    assert "\x1b[" not in out


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


def test_very_many_points_are_read_fitted_and_drawn(run: Run, tmp_path: Path) -> None:
    x = np.arange(1, 200_001)
    y = 0.3 + 0.4 * x / (x + 20_000) + 0.02 * np.sin(x)
    path = tmp_path / "many.csv"
    path.write_text("step,score\n" + "\n".join(f"{at},{value:.4f}" for at, value in zip(x, y, strict=True)) + "\n")
    fits = fit_curves_of(FitRequest([path]))
    assert fits.curves[0].fit.used_points == 200_000
    assert fits.curves[0].fit.verdict.value in ("rising", "saturated")
    assert curve_panels(fits)[0].lines[0].used.x.size <= MOST_POINTS


@pytest.mark.parametrize("shape", ["sigmoid", "collapse", "reward-scale"])
def test_the_band_holds_its_median_and_meets_the_predictions(tmp_path: Path, shape: str) -> None:
    curve = draw(shape, np.random.default_rng(3)).curve
    fits = fit_curves_of(FitRequest(write(tmp_path / "drawn.csv", x=curve.x, y=curve.y), fit_fraction=0.5))
    (panel,) = curve_panels(fits)
    (line,) = panel.lines
    band = line.band
    assert band is not None
    assert band.x.size == BAND_POINTS
    assert np.all(np.diff(band.x) >= 0)
    assert np.all((band.low <= band.median) & (band.median <= band.high))
    last = line.predictions[-1]
    assert (band.x[-1], band.low[-1], band.high[-1]) == pytest.approx((last.x, last.low, last.high))
    assert line.used.x.size + line.unused.x.size == curve.x.size
    assert panel.leftmost < line.used.x[line.used.x > 0].min()
