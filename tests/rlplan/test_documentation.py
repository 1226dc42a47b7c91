"""Every command line in README and docs is run, and the output that README shows is the real one."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from planner.curves.synthetic import draw
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import seeded

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
NEEDS_A_SERVER = "postgresql://"


def commands(document: Path) -> list[str]:
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    lines = (line.removeprefix("$ ").strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line.startswith("rlplan ") and NEEDS_A_SERVER not in line]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write the learning curves that examples name."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for seed, name in enumerate(("n16", "n64")):
        curve = draw("sigmoid", np.random.default_rng(seed)).curve
        rows = "".join(f"{x},{y}\n" for x, y in zip(curve.x, curve.y, strict=True))
        (folder / f"{name}.csv").write_text("gpu_hours,score\n" + rows, encoding="utf-8")
    return folder


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_line_works(run: Run, document: Path, tmp_path: Path) -> None:
    if document.name == "sweeps.md":
        seeded(tmp_path / "rlplan.db").store.close()  # the commands that look at a sweep need one
    if document.name == "recommendation.md":
        ended(tmp_path / "rlplan.db")
    for command in commands(document):
        ran = run(*shlex.split(command, comments=True)[1:])
        assert ran.code == 0, (command, ran.err)


def test_the_readme_has_commands() -> None:
    assert len(commands(ROOT / "README.md")) >= 5


def test_the_readme_shows_the_real_output(run: Run) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ rlplan propose --budget 5000\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    real = run("propose", "--budget", "5000").out
    assert [line.rstrip() for line in shown[1].splitlines()] == [line.rstrip() for line in real.splitlines()]


def test_the_screen_of_a_sweep_is_what_is_drawn() -> None:
    shown = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    assert (Path(__file__).parent / "sweep_screen_76.txt").read_text(encoding="utf-8") in shown


def test_the_check_against_public_runs_is_what_the_bench_prints() -> None:
    shown = (ROOT / "docs" / "concepts" / "costs.md").read_text(encoding="utf-8")
    command = [sys.executable, "bench/cost_check.py", "--markdown"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rows = [line for line in printed.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) >= 14
    assert [row for row in rows if row not in shown] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_local_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target
