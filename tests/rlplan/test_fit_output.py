import csv
import io
import re
from pathlib import Path

import pytest

from planner.curves.verdicts import Verdict
from rlplan.printing.fit_output import compute, score
from tests.rlplan.conftest import Run
from tests.rlplan.fit_answers import curves, only
from tests.rlplan.fit_samples import rising, write

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
