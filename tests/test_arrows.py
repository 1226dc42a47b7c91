"""The contracts on imports in pyproject.toml, which `make check` holds the code to, do catch an arrow upwards."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("budgets", "planner", "runner", "rlplan")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, folder / package, ignore=lambda _, names: [n for n in names if n == "__pycache__"]
        )
    return folder


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    lint = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([lint, "--no-logo", "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


def test_the_code_keeps_its_contracts(copy: Path) -> None:
    done = linted(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("path", "line", "said"),
    [
        ("budgets/ledger.py", "import planner.view", "budgets.ledger -> planner.view"),
        ("planner/view.py", "import rlplan.exits", "planner.view -> rlplan.exits"),
        ("runner/grpo/clips.py", "import runner.training.trainer", ".grpo -> .training"),
        ("rlplan/wording/numbers.py", "import rlplan.reading.story", "rlplan.wording.numbers -> rlplan.reading.story"),
        ("planner/store/store.py", "import torch", "planner.store.store -> torch"),
    ],
)
def test_an_arrow_upwards_is_refused(copy: Path, path: str, line: str, said: str) -> None:
    file = copy / path
    before = file.read_text()
    file.write_text(f"{before}\n{line}\n")
    try:
        done = linted(copy)
    finally:
        file.write_text(before)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout
    assert said in done.stdout
