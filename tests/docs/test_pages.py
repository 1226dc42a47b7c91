"""What the pages show is what there is: printed output, screens, tables, the commands' help, links."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from budgets.signal import BetaPassRates, MeasuredPassRates, PassRates, signal_fraction
from planner.proposals.published import FRONTIERS
from rlplan.actions.previewing import FEWEST_DRAWS, MOST_DRAWS
from runner.simulation.drawn import MODERATE
from tests.docs.lines import PAGES, ROOT, name
from tests.rlplan.conftest import Run

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
LAW_AT = (1e5, 3e5, 1e6, 2e6, 3e6, 1e7)
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
    shown = (DOCS / "concepts" / "costs.md").read_text(encoding="utf-8")
    command = [sys.executable, "bench/cost_check.py", "--markdown"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rows = [line for line in printed.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) >= 14
    assert [row for row in rows if row not in shown] == []


def test_the_rates_of_a_preview_are_those_of_its_worlds() -> None:
    said = " ".join((DOCS / "replay.md").read_text(encoding="utf-8").split())
    crossing, late, second, slide, collapse = (
        f"{100 * rate:g} %"
        for rate in (MODERATE.crossing, MODERATE.late_start, MODERATE.second_rise, MODERATE.slide, MODERATE.collapse)
    )
    assert f"end higher than their neighbours ({crossing}), start late ({late}), rise twice ({second})" in said
    assert f"slide after a peak ({slide}), and {collapse} of the runs collapse" in said
    assert f"from {FEWEST_DRAWS} to {MOST_DRAWS} of them" in said


def test_the_law_of_n_among_the_questions_is_the_published_one() -> None:
    page = (DOCS / "faq.md").read_text(encoding="utf-8")
    for difficulty in ("easy", "hard"):
        row = re.search(rf"^\| {difficulty} problems \(.*?\) \|(.*)\|$", page, re.MULTILINE)
        assert row is not None
        law = FRONTIERS[difficulty].optimal_group
        assert [int(cell) for cell in row[1].split("|")] == [round(law(rollouts)) for rollouts in LAW_AT]


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


def test_the_shares_of_signal_among_the_questions_are_those_that_propose_prints(run: Run) -> None:
    page = " ".join((DOCS / "faq.md").read_text(encoding="utf-8").split())
    told = re.search(r"`--pass-rate 0\.05`, a mean .*? (\d+) % with n = 8 and (\d+) % with n = 64; .*? alike", page)
    alike = re.search(r"alike at 0\.05, it would be (\d+) % with n = 8 and (\d+) % with n = 64", page)
    assert told is not None
    assert alike is not None
    plan = json.loads(run("propose", "--budget", "5000", "--pass-rate", "0.05", "--format", "json").out)
    signal = {each["rollouts_per_prompt"]: each["signal_fraction"] for each in plan["candidates"]}
    assert [int(share) for share in told.groups()] == [round(100 * signal[n]) for n in (8, 64)]
    assert [int(share) for share in alike.groups()] == [round(100 * signal_fraction(_alike(0.05), n)) for n in (8, 64)]
    (assumed,) = (entry["value"] for entry in plan["assumptions"] if entry["what"] == "base pass rate")
    assert assumed == "0.05 on average, prompts spread around it (Beta 0.15, 2.85)"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_local_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
