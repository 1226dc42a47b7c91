"""What the pages show is what there is: printed output, screens, tables, the commands' help, links."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from budgets.signal import BetaPassRates, MeasuredPassRates, PassRates, signal_fraction
from docs.tools import trainers_table
from tests.docs.lines import PAGES, ROOT, name
from tests.rlplan.conftest import Run

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
SIGNAL_AT = (2, 4, 8, 16, 64, 256)


def test_the_readme_shows_the_real_output(run: Run) -> None:
    shown = re.search(r"\$ rlplan propose --budget 5000\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    real = run("propose", "--budget", "5000").out
    assert [line.rstrip() for line in shown[1].splitlines()] == [line.rstrip() for line in real.splitlines()]


def test_the_screen_of_a_sweep_is_what_is_drawn() -> None:
    shown = (DOCS / "sweeps.md").read_text(encoding="utf-8")
    assert (ROOT / "tests" / "rlplan" / "sweep_screen_76.txt").read_text(encoding="utf-8") in shown


def test_the_page_of_commands_is_what_help_prints() -> None:
    written = subprocess.run(
        [sys.executable, "-c", "from docs.tools.commands_page import page; print(page(), end='')"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    shown = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert shown == written, "docs/commands.md is not what --help prints: `make docs` writes it anew"


def test_the_check_against_public_runs_is_what_the_bench_prints() -> None:
    pages = (DOCS / "concepts" / "costs.md", ROOT / "bench" / "results" / "prices.md")
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    command = [sys.executable, "bench/cost_check.py", "--markdown"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rows = [line for line in printed.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) >= 14
    assert [row for row in rows if row not in shown] == []


def test_the_table_of_trainers_shows_what_the_drivers_say() -> None:
    page = trainers_table.PAGE.read_text(encoding="utf-8")
    assert trainers_table.write(page) == page, "run docs/tools/trainers_table.py"


def _alike(rate: float) -> PassRates:
    return MeasuredPassRates((rate,))


@pytest.mark.parametrize(("row", "rates_at"), [(r"0\.\d+", _alike), (r"mean 0\.\d+", BetaPassRates)])
def test_the_shares_of_signal_are_those_of_the_formula(row: str, rates_at: Callable[[float], PassRates]) -> None:
    page = (DOCS / "concepts" / "allocation.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| ({row}) \|(.*)\|$", page, re.MULTILINE)
    assert len(rows) == 4
    for rate, cells in rows:
        shares = [round(100 * signal_fraction(rates_at(float(rate.removeprefix("mean "))), n)) for n in SIGNAL_AT]
        assert [int(cell.strip(" %")) for cell in cells.split("|")] == shares


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_local_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
