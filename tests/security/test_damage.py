"""Rows that hold what they cannot hold: what is damaged is left out or said, and all else is there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.rlplan.conftest import Run, run  # noqa: F401 (a fixture)
from tests.rlplan.web.dashboard.visits import visiting
from tests.security.attacker import TRACES

VISITED = (
    *("/", "/sweeps/sweep-1", "/sweeps/sweep-1/trials/1", "/sweeps/sweep-1/trials/7"),
    *("/sweeps/sweep-1/data.json", "/healthz"),
)
# By kind of value: a text, no JSON, JSON of another shape, bytes that are no text, more than any number, nothing.
NASTY = ("'x'", "'{'", "'[1,[2]]'", "x'ff00fe'", "9e999", "NULL", "-1", "9223372036854775807")
COLUMNS = (
    "sweeps.config",
    "sweeps.created_at",
    "sweeps.heartbeat_at",
    "sweeps.status",
    "sweeps.policy",
    "plans.hardware",
    "plans.workload",
    "plans.assumptions",
    "plans.pilot_gpu_hours",
    "candidates.axes",
    "candidates.gpu_hours_per_step",
    "trials.name",
    "trials.axes",
    "trials.state",
    "trials.rollouts_per_prompt",
    "trials.failure_tail",
    "segments.started_at",
    "segments.outcome",
    "segments.charged_gpu_hours",
    "points.score",
    "points.gpu_hours",
    "points.further_scores",
    "transitions.reason",
    "transitions.to_state",
    "decisions.at",
    "decisions.seen",
    "decisions.alternatives",
    "fits.predicted_mean",
    "fits.made_at",
    "charges.gpu_hours",
)
# One kind of damage for each column, so that each kind and each column has its turn; the soak test tries all of them.
PAIRS = [(column, NASTY[place % len(NASTY)]) for place, column in enumerate(COLUMNS)]


def damage(database: Path, column: str, value: str) -> None:
    """Put a value where it cannot be, also where the schema forbids it."""
    table, name = column.split(".")
    with closing(sqlite3.connect(database)) as rows, rows:
        rows.execute("PRAGMA ignore_check_constraints = ON")
        rows.execute("PRAGMA writable_schema = ON")
        rows.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = ?", (table,))
    with closing(sqlite3.connect(database)) as rows, rows:
        rows.execute("PRAGMA ignore_check_constraints = ON")
        rows.execute(f"UPDATE {table} SET {name} = {value} WHERE rowid = (SELECT max(rowid) FROM {table})")


def look_at(database: Path) -> None:
    with visiting(database, raise_server_exceptions=False) as client:
        for path in VISITED:
            answer = client.get(path)
            assert answer.status_code in (200, 404, 503), path  # 404 of a trial that is left out
            assert not any(trace in answer.text for trace in TRACES), path
        assert client.get("/static/rlplan.css").status_code == 200


@pytest.mark.parametrize(("column", "value"), PAIRS)
def test_the_dashboard_lives_with_a_damaged_row(database: Path, column: str, value: str) -> None:
    damage(database, column, value)
    look_at(database)


@pytest.mark.soak
@pytest.mark.parametrize("column", COLUMNS)
def test_the_dashboard_lives_with_any_damage(database: Path, column: str) -> None:
    for value in NASTY:
        damage(database, column, value)
        look_at(database)


@pytest.mark.parametrize(("column", "value"), PAIRS[::3])
def test_the_report_says_what_is_damaged(run: Run, database: Path, column: str, value: str) -> None:  # noqa: F811
    damage(database, column, value)
    ran = run("report", "out.html", "--db", str(database))
    assert ran.code in (0, 2, 3), ran.err
    assert "Traceback" not in ran.err


def test_one_damaged_sweep_hides_no_other(database: Path) -> None:
    with closing(sqlite3.connect(database)) as rows, rows:
        columns = [row[1] for row in rows.execute("PRAGMA table_info(sweeps)") if row[1] not in ("id", "name")]
        names = ", ".join(columns)
        rows.execute(f"INSERT INTO sweeps (name, {names}) SELECT 'broken', {names} FROM sweeps")
        rows.execute("UPDATE sweeps SET config = '{' WHERE name = 'broken'")
    with visiting(database, raise_server_exceptions=False) as client:
        page = client.get("/").text
        assert "damaged" in page
        assert 'href="/sweeps/sweep-1"' in page
        assert client.get("/sweeps/broken").status_code == 503
        assert client.get("/sweeps/sweep-1").status_code == 200


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("sweeps.config", "'{'"),
        ("sweeps.created_at", "'soon'"),
        ("sweeps.status", "'gone'"),
        ("decisions.seen", "'x'"),
        ("decisions.at", "7"),
    ],
)
@pytest.mark.parametrize("command", ["status", "show", "rank", "decisions"])
def test_a_command_says_that_the_database_is_damaged_and_not_rlplan(
    run: Run,  # noqa: F811
    database: Path,
    command: str,
    column: str,
    value: str,
) -> None:
    damage(database, column, value)
    ran = run(command, "--db", str(database))
    assert ran.code in (0, 2)
    if ran.code == 2 and column.startswith("sweeps"):
        assert f"{database} holds a value that cannot be read" in ran.err
        assert len(ran.err.splitlines()) == 1
