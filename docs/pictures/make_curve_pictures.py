"""Draws the pictures of docs/concepts/curves.md in Chromium: `python docs/pictures/make_curve_pictures.py [FOLDER]`.

Every curve is synthetic and seeded, so that the pictures change only when the fit does.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from bench.synthetic import draw
from planner.curves.curve import Curve
from planner.curves.verdicts import Verdict
from rlplan.charts.chart import Chart
from rlplan.commands.fit import fit_page
from rlplan.commands.fit_charts import fit_charts
from rlplan.commands.fit_curves import fit_curves_of
from rlplan.requests.logs import FitRequest

LEVEL = 0.9
COLOURS = 128  # of the palette: flat areas need few, and the file is a third as large
MOST_POINTS = 250
TALL = 4000  # pixels: all that is pictured is on the screen, and so drawn
DRAWN = '() => [...document.querySelectorAll("[data-chart]")].every((each) => "drawn" in each.dataset)'
SHAPES_BY_VERDICT = {
    Verdict.RISING: "sigmoid",
    Verdict.SATURATED: "saturating",
    Verdict.FLAT: "dead",
    Verdict.DECLINING: "slide",
    Verdict.COLLAPSED: "collapse",
    Verdict.NOT_IDENTIFIABLE: "log-linear",
}
SHAPES_BEYOND = ("shoulder", "second-rise", "slide", "late-start")


def main() -> None:
    """Draw all of them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    save(folder / "curve-windows.png", windows())
    save(folder / "curve-verdicts.png", verdicts())
    save(folder / "curve-shapes.png", shapes())
    save(folder / "curve-cut.png", cuts())


def windows() -> list[Chart]:
    """Fit more and more of one sigmoid."""
    curve = next(example("sigmoid", 0.01))
    return [panel(curve, f"the first {fraction:.0%}", fit_fraction=fraction) for fraction in (0.05, 0.1, 0.25, 0.5)]


def verdicts() -> list[Chart]:
    """Find a curve for every verdict among those of a shape that often gets it."""
    found = []
    for verdict, shape in SHAPES_BY_VERDICT.items():
        drawn = (panel(curve, shape, fit_fraction=0.5) for curve in example(shape, 0.03))
        found.append(next(each for each in drawn if each.title.endswith(f": {verdict.value}")))
    return found


def shapes() -> list[Chart]:
    """Fit what no sigmoid describes."""
    return [panel(next(example(shape, 0.03)), shape, fit_fraction=0.5) for shape in SHAPES_BEYOND]


def cuts() -> list[Chart]:
    """Fit a curve whose beginning follows another law, with it and without."""
    curve = next(example("sigmoid", 0.01))
    fast_start = 0.25 * np.exp(-curve.x / (0.01 * curve.x[-1]))
    odd = Curve.of(curve.name, curve.x, curve.y + fast_start)
    return [
        panel(odd, name, fit_fraction=0.3, cut=cut)
        for name, cut in (("whole", None), ("cut at 5 %", str(0.05 * odd.x[-1])))
    ]


def example(shape: str, most_noise: float) -> Iterator[Curve]:
    """Draw curves of a shape, seed by seed, that are easy on the eye."""
    for seed in range(200):
        drawn = draw(shape, np.random.default_rng(seed))
        if drawn.noise_sd <= most_noise and drawn.curve.x.size >= 80:
            chosen = np.unique(np.linspace(0, drawn.curve.x.size - 1, MOST_POINTS).astype(int))
            yield Curve.of(shape, drawn.curve.x[chosen], drawn.curve.y[chosen])


def panel(curve: Curve, name: str, **flags: Any) -> Chart:
    """Fit a curve as the command does, from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.csv"
        rows = "".join(f"{x},{y}\n" for x, y in zip(curve.x, curve.y, strict=True))
        path.write_text("gpu_hours,score\n" + rows, encoding="utf-8")
        fits = fit_curves_of(FitRequest(path, predict_at="end", **flags))
    return fit_charts(fits)[0]


def save(path: Path, drawn: list[Chart]) -> None:
    """Draw panels on a page, take a picture of it, and keep the file small."""
    page_file = path.with_suffix(".html")
    page_file.write_text(fit_page(drawn), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        width = 1440 if len(drawn) > 4 else 1000  # three or two panels side by side
        page = browser.new_page(viewport={"width": width, "height": TALL})
        page.goto(page_file.resolve().as_uri())
        page.wait_for_function(DRAWN)
        page.locator(".panels").screenshot(path=path)
        browser.close()
    page_file.unlink()
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
