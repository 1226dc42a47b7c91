"""`rlplan decisions`: of one trial, only some actions, and only since a time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from budgets.errors import InputError
from rlplan.reading.decisions import moment
from tests.planner.store.samples import NOON
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import seeded


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> None:
    seeded(tmp_path / "rlplan.db").store.close()


def numbers(run: Run, *args: str) -> list[int]:
    return [each["number"] for each in run.json("decisions", *args)["decisions"]]


def test_decisions_are_chosen_by_action_and_time(run: Run) -> None:
    assert numbers(run, "--action", "prune") == [13, 15]
    assert numbers(run, "--action", "prune,start", "--last", "2") == [15, 16]
    assert numbers(run, "--trial", "n32-B32-s0") == [11, 12, 13]
    assert numbers(run, "--action", "finish") == []
    assert numbers(run, "--since", "2026-03-01 13:20") == [15, 16]
    assert numbers(run, "--since", "2026-03-01T14:20+01:00") == [15, 16]
    assert numbers(run, "--since", "1h") == []
    assert "no such decisions" in run("decisions", "--since", "1h").out


def test_a_mistyped_trial_is_named_with_the_nearest(run: Run) -> None:
    unknown = run("decisions", "--trial", "n32-B32-s")
    assert (unknown.code, "did you mean 'n32-B32-s0'" in unknown.err) == (2, True)
    assert run("decisions", "--last", "0").code == 2


@pytest.mark.parametrize(
    ("text", "ago"), [("90s", 90), ("30m", 1800), ("30 min", 1800), ("1.5h", 5400), ("2d", 172_800)]
)
def test_a_time_may_be_so_long_ago(text: str, ago: int) -> None:
    assert moment(text, NOON) == NOON - timedelta(seconds=ago)


def test_a_time_without_a_zone_is_utc() -> None:
    assert moment("2026-03-01", NOON) == datetime(2026, 3, 1, tzinfo=UTC)
    with pytest.raises(InputError):
        moment("99999999999999d", NOON)
