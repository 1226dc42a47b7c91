"""A sweep that is killed again and again ends as if nothing had happened."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.torment import check, table, torment, undisturbed


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def run(folder: Path, kills: int, seed: int, calm: dict[str, Any]) -> None:
    sweeps = torment(folder, kills, seed)
    for sweep in sweeps:
        check(sweep, calm)
    print(f"\n{table(sweeps)}")  # noqa: T201 (what the soak test is for)


def test_a_few_kills(tmp_path: Path, calm: dict[str, Any]) -> None:
    run(tmp_path, kills=5, seed=1, calm=calm)


@pytest.mark.soak
def test_fifty_kills(tmp_path: Path, calm: dict[str, Any]) -> None:
    run(tmp_path, kills=50, seed=2, calm=calm)
