"""Makes the pictures of report and dashboard that README and docs show, from a real sweep such as that of `make demo`.

    python docs/tools/screenshots.py --db demo/rlplan.db [--sweep sweep-1]

It takes Chromium. The database is copied first: what is looked at may be in use.
"""

import argparse
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from planner.store import open_store

PICTURES = Path(__file__).parents[1] / "pictures"
RLPLAN = str(Path(sys.executable).with_name("rlplan"))
SCREEN = {"width": 1440, "height": 4000}  # all that is pictured is on it, and so drawn
AROUND = 14  # pixels
# From the top of one element to the bottom of another.
PARTS = {
    "report": ("header", "#frontier figure"),
    "report-dark": ("#curves", "#heat"),
    "dashboard": ("header", "#answer"),
}
COLOURS = 256  # enough for pages that are flat, and a quarter of the bytes
DRAWN = """() => [...document.querySelectorAll("[data-chart]")]
  .filter((each) => each.checkVisibility() && each.getBoundingClientRect().top < innerHeight)
  .every((each) => "drawn" in each.dataset)"""
# A command names the folder of the trials or of the copy; who works beside the database would not type all of it.
SHORTENED = """folder => document.querySelectorAll("pre").forEach((each) => {
  each.textContent = each.textContent.replaceAll(folder + "/", "");
})"""


def main() -> None:
    """Write the report, serve the dashboard, and take the pictures."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        database, report = Path(folder) / "rlplan.db", Path(folder) / "report.html"
        copy(given.db, database)
        subprocess.run([RLPLAN, "report", str(report), *given.sweep, "--db", str(database)], check=True)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        here = str(given.db.parent.resolve())
        with looking(browser, report.as_uri(), "light") as page:
            take(page, "report", here, folder)
        with looking(browser, report.as_uri(), "dark") as page:
            take(page, "report-dark", here, folder)
        with served(database) as address, looking(browser, address, "light") as page:
            page.locator(f"#sweeps a:text-is('{given.sweep[0]}')" if given.sweep else "#sweeps a").first.click()
            page.locator("#command-line, #answer .none:not(.busy)").wait_for()  # until all curves are fitted
            take(page, "dashboard", here, folder)
        browser.close()


def copy(database: Path, to: Path) -> None:
    """Copy a database with what its log holds, and bring the copy up to date."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as old, closing(sqlite3.connect(to)) as new:
        old.backup(new)
    with open_store(to):
        pass


@contextmanager
def looking(browser: Browser, address: str, scheme: Literal["light", "dark"]) -> Iterator[Page]:
    """Open a page."""
    context = browser.new_context(viewport=SCREEN, color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    yield page
    context.close()


def take(page: Page, name: str, *folders: str) -> None:
    """Take a picture of a part of the page, and make its file small."""
    page.wait_for_function(DRAWN)
    for folder in folders:
        page.evaluate(SHORTENED, folder)
    first, last = (page.locator(each).first.bounding_box() for each in PARTS[name])
    assert first is not None
    assert last is not None
    top = max(0, first["y"] - AROUND)
    height = last["y"] + last["height"] + AROUND - top
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path, clip={"x": 0, "y": top, "width": SCREEN["width"], "height": height})
    with Image.open(path) as whole:
        small = whole.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    sys.stderr.write(f"{path}: {path.stat().st_size / 1000:.0f} kB\n")


@contextmanager
def served(database: Path) -> Iterator[str]:
    """Run the dashboard."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [RLPLAN, "dashboard", "--db", str(database), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().rpartition(" ")[2].strip()  # with its token
        try:
            yield address
        finally:
            process.terminate()


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--db", type=Path, default=Path("demo/rlplan.db"))
    parser.add_argument("--sweep", nargs=1, default=[], help="by default the newest")
    return parser.parse_args()


if __name__ == "__main__":
    main()
