"""The contracts on imports in pyproject.toml, which `make check` holds the code to, do catch an arrow upwards."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("budgets", "planner", "runner", "rlplan")


UPWARDS = {
    "budgets/ledger.py": ("import planner.view", "budgets.ledger -> planner.view"),
    "planner/view.py": ("import rlplan.exits", "planner.view -> rlplan.exits"),
    "runner/grpo/objective.py": ("import runner.training.trainer", ".grpo -> .training"),
    "rlplan/wording/numbers.py": ("import rlplan.reading.story", "rlplan.wording.numbers -> rlplan.reading.story"),
    "planner/store/store.py": ("import torch", "planner.store.store -> torch"),
}


def test_arrows_upwards_are_refused(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path, (line, _) in UPWARDS.items():
        with (tmp_path / path).open("a") as file:
            file.write(f"\n{line}\n")
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-logo", "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout
    assert [said for _, said in UPWARDS.values() if said not in done.stdout] == []
