import re
from pathlib import Path

import numpy as np
import pytest

from bench.synthetic import draw
from rlplan.actions.fit_request import FitRequest
from rlplan.actions.fitting import fit_files
from rlplan.charts.fit_panels import BAND_POINTS, MOST_PANELS, MOST_POINTS, columns, curve_panels
from tests.rlplan.conftest import Run
from tests.rlplan.fit_samples import rising, write

PNG_HEADER = b"\x89PNG\r\n\x1a\n"


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
    assert "taken.png is no file that can be written" in ran.err


def test_a_million_points_are_read_fitted_and_drawn(run: Run, tmp_path: Path) -> None:
    x = np.arange(1, 1_000_001)
    y = 0.3 + 0.4 * x / (x + 100_000) + 0.02 * np.sin(x)
    path = tmp_path / "million.csv"
    path.write_text("step,score\n" + "\n".join(f"{at},{value:.4f}" for at, value in zip(x, y, strict=True)) + "\n")
    fits = fit_files([path], FitRequest())
    assert fits.curves[0].fit.used_points == 1_000_000
    assert fits.curves[0].fit.verdict.value in ("rising", "saturated")
    assert curve_panels(fits)[0].lines[0].used.x.size <= MOST_POINTS


@pytest.mark.parametrize("shape", ["sigmoid", "collapse", "zero", "reward-scale", "late-start"])
def test_the_band_holds_its_median_and_meets_the_predictions(tmp_path: Path, shape: str) -> None:
    curve = draw(shape, np.random.default_rng(3)).curve
    fits = fit_files([write(tmp_path / "drawn.csv", x=curve.x, y=curve.y)], FitRequest(fit_fraction=0.5))
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


@pytest.mark.parametrize(("count", "wide"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (24, 4)])
def test_panels_form_a_grid(count: int, wide: int) -> None:
    assert columns(count) == wide


def test_a_page_takes_the_light_or_the_dark_of_its_reader(run: Run, tmp_path: Path) -> None:
    one = write(tmp_path / "a<b.csv")
    assert run("fit", str(one), "--plot", "fit.html").code == 0
    page = (tmp_path / "fit.html").read_text()
    assert "<title>a&lt;b: " in page
    assert '<meta name="color-scheme" content="light dark">' in page
    assert page.count("prefers-color-scheme: dark") == 2  # the paper's colour, and the ink's
    assert '"paper_bgcolor":"rgba(0,0,0,0)"' in page
