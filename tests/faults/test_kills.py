"""A sweep that is killed again and again ends as if nothing had happened."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.torment import charged_seconds, check, kill_starts, table, torment, undisturbed, used_seconds


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.soak
@pytest.mark.parametrize("kills", [5, 50])
def test_a_killed_sweep_ends_as_one_that_was_not(tmp_path: Path, calm: dict[str, Any], kills: int) -> None:
    sweeps = torment(tmp_path, kills, seed=kills)
    for sweep in sweeps:
        check(sweep, calm)
    print(f"\n{table(sweeps)}")  # noqa: T201 (what the soak test is for)


@pytest.mark.soak
@pytest.mark.parametrize("kills", [3, 50])
def test_drivers_killed_while_ray_starts_cost_what_their_workers_used(
    tmp_path: Path, calm: dict[str, Any], kills: int
) -> None:
    sweep = kill_starts(tmp_path, kills, seed=kills)
    check(sweep, calm)
    assert charged_seconds(sweep) == pytest.approx(used_seconds(sweep), abs=0.1)
    print(f"\n{table([sweep])}")  # noqa: T201 (what the soak test is for)
