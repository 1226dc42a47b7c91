"""How long a report takes to open in headless Chromium, and how large its file is: 200 trials of 200 points each.

    python bench/report_opening.py [--trials 200] [--times 3]

Each opening is a new browser without a cache. A page is open when all charts that its first screen shows are drawn,
and has been seen when its first text was painted. Beside the report stands a page that holds plotly's script and one
small chart: what any report that holds plotly takes at least. The bars are 2 s, and 3 MB beside plotly's script.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard_latency import seeded
from playwright.sync_api import Page, sync_playwright

from planner.store import open_store
from rlplan.web.page import plotly_script
from rlplan.web.report import write_report

BAR_SECONDS, BAR_MEGABYTES = 2.0, 3.0
SCREEN = {"width": 1440, "height": 1000}
# Noted by the page itself, from the moment at which the browser began to fetch it.
NOTE = """
const early = (figure) => figure.checkVisibility() && figure.getBoundingClientRect().top < innerHeight;
const look = () => {
  const plots = [...document.querySelectorAll("[data-chart]")].filter(early);
  const drawn = document.readyState === "complete" && plots.every((each) => "drawn" in each.dataset);
  if (drawn) setTimeout(() => { window.openedAfter = performance.now(); });
  else requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
ALONE = """<!doctype html><body><figure data-chart><div id="plot" style="height: 400px"></div></figure>
<script>{}</script><script>
Plotly.newPlot("plot", [{{x: [1, 2, 3], y: [1, 3, 2]}}]);
document.querySelector("figure").dataset.drawn = "";
</script></body>"""


@dataclass(frozen=True)
class Opening:
    """How long one opening took, in seconds."""

    painted: float
    opened: float


def main() -> None:
    """Write the pages, open them in turn, print the table."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        pages = dict(written(Path(folder), given.trials))
        openings: dict[str, list[Opening]] = {name: [] for name in pages}
        for _ in range(given.times):
            for name, path in pages.items():  # in turn, so that a busy moment meets both
                openings[name].append(opened(path))
        print(f"{given.trials} trials × 200 points; the median of {given.times} openings\n")
        print("| page | MB | MB beside plotly | first text s | charts of the first screen s |\n|---|---|---|---|---|")
        for name, path in pages.items():
            size, beside = path.stat().st_size / 1e6, (path.stat().st_size - len(plotly_script().encode())) / 1e6
            painted = statistics.median(each.painted for each in openings[name])
            whole = statistics.median(each.opened for each in openings[name])
            print(f"| {name} | {size:.2f} | {beside:.2f} | {painted:.2f} | {whole:.2f} |")
            if name == "report":
                met = whole <= BAR_SECONDS and beside <= BAR_MEGABYTES
                print(f"| bar {'met' if met else 'MISSED'} | | {BAR_MEGABYTES} | | {BAR_SECONDS} |")


def written(folder: Path, trials: int) -> Iterator[tuple[str, Path]]:
    """Write the pages, and name each."""
    database, report, alone = folder / "rlplan.db", folder / "report.html", folder / "alone.html"
    with open_store(database) as store:
        sweep = seeded(store, trials, points=200)
    yield "report", write_report(report, str(database), sweep)
    alone.write_text(ALONE.format(plotly_script()), encoding="utf-8")
    yield "plotly alone", alone


def opened(path: Path) -> Opening:
    """Open a page in a browser of its own."""
    with new_page() as page:
        page.goto(path.as_uri(), wait_until="commit")
        page.wait_for_function("() => window.openedAfter !== undefined", timeout=60_000)
        return Opening(page.evaluate(PAINTED) / 1000, page.evaluate("window.openedAfter") / 1000)


@contextmanager
def new_page() -> Iterator[Page]:
    """Start a browser for one page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(viewport=SCREEN).new_page()
        page.add_init_script(NOTE)
        yield page
        browser.close()


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--times", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
