"""A database that is damaged is called so, in every command and on the dashboard: which table, and what to do."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import rlplan
from budgets.errors import StoreError
from tests.rlplan.conftest import Run, run  # noqa: F401 (a fixture)
from tests.rlplan.recommend_sweeps import ended, trials
from tests.rlplan.web.dashboard.visits import visiting
from tests.security.attacker import TRACES

QUICK = {
    "status": ("status",),
    "list": ("status", "--all"),
    "plan": ("rank", "plan-1"),
    "trial": ("status", "TRIAL"),
    "rank": ("rank",),
    "decisions": ("decisions",),
    "points": ("export", "-", "--what", "points"),
    "export": ("export", "-", "--what", "all", "--format", "json"),
}
SLOW = {"recommend": ("recommend",), "report": ("report", "out.html")}
PICTURE = {"status", "trial", "export", "report"}

# By table: what happens to it, and who reads that. No JSON, JSON of another shape, no date, none of an enumeration,
# text or bytes for a number, more than any number, bytes that are no text, a parent that is gone.
DAMAGE = {
    "plans": [
        ("workload = '{'", {"status", "list", "plan", "export", "report", "recommend"}),
        ("hardware = '[7]'", {"plan", "status"}),
        ("pilot_gpu_hours = 'x'", {"plan", "status", "list"}),
    ],
    "candidates": [("axes = '[1,[2]]'", {"plan", "report"}), ("gpu_hours_per_step = 9e999", {"plan", "report"})],
    "sweeps": [
        ("config = '{'", {*QUICK, *SLOW}),
        ("config = '[1]'", {"status", "list", "trial", "rank", "decisions", "export"}),
        ("created_at = 'soon'", {"status", "list", "rank", "decisions"}),
        ("status = 'gone'", {"status", "list", "rank", "decisions", "recommend"}),
        ("plan_id = 77", {"status"}),
    ],
    "trials": [
        ("axes = 'all of them'", PICTURE | {"points"}),
        ("state = 'asleep'", PICTURE),
        ("rollouts_per_prompt = 'x'", PICTURE | {"points"}),
        ("learning_rate = 9e999", PICTURE),
        ("name = x'ff00fe'", PICTURE | {"points"}),
        ("name = cast(x'ff' as text)", PICTURE | {"points"}),
    ],
    "segments": [("outcome = 'odd'", PICTURE), ("started_at = 7", {"trial", "export", "report"})],
    "points": [
        ("score = 'high'", PICTURE | {"points", "recommend"}),
        ("gpu_hours = -9e999", PICTURE | {"points", "recommend"}),
        ("metrics = '{'", {"points", "export"}),
    ],
    "transitions": [("to_state = 'x'", {"trial"})],
    "decisions": [
        ("seen = '{'", {"decisions", "export", "report"}),
        ("alternatives = '7'", {"decisions", "export", "report"}),
        ("at = 'yesterday'", {"decisions", "status", "export", "report"}),
    ],
    "fits": [("predicted_mean = 'low'", PICTURE), ("made_at = 'x'", {"export"})],
    "charges": [("gpu_hours = 9e999", {"status", "list"})],
    "recommendations": [("details = '{'", {"status", "list", "report"})],
    "rankings": [
        ("expected_score = 'best'", {"status", "rank", "report"}),
        ("axes = '{'", {"rank", "status"}),
    ],
}
CASES = [(table, change, readers) for table, changes in DAMAGE.items() for change, readers in changes]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return ended(tmp_path / "rlplan.db")


def damage(database: Path, table: str, change: str) -> None:
    """Change all rows of a table in a way that its schema forbids."""
    with closing(sqlite3.connect(database)) as rows, rows:
        rows.execute("PRAGMA ignore_check_constraints = ON")
        if table == "charges":
            rows.execute(
                "INSERT INTO charges (sweep_id, at, worker, kind, gpu_hours) VALUES (1, '2026-01-01', 'w', 'idle', 1)"
            )
        assert rows.execute(f"UPDATE {table} SET {change}").rowcount > 0


@pytest.mark.parametrize(("table", "change", "readers"), CASES)
def test_every_command_that_reads_it_says_what_is_damaged(
    run: Run,  # noqa: F811
    database: Path,
    table: str,
    change: str,
    readers: set[str],
) -> None:
    trial = trials(database)[0].name
    damage(database, table, change)
    found = set()
    for name, args in (QUICK | {name: SLOW[name] for name in SLOW if name in readers}).items():
        ran = run(*(trial if each == "TRIAL" else each for each in args), "--db", str(database))
        assert ran.code in (0, 2), (name, ran.err)
        assert "Traceback" not in ran.err
        if ran.code == 2:
            found.add(name)
            assert f"rlplan: {database} is damaged: table {table}, " in ran.err, name
            assert "Go back to a copy of it" in ran.err
            assert (ran.out, len(ran.err.splitlines())) == ("", 1)
    assert found >= readers


def test_a_row_whose_parent_is_gone_is_named(run: Run, database: Path) -> None:  # noqa: F811
    damage(database, "sweeps", "plan_id = 77")
    assert "table sweeps, a row belongs to plans 77, which is not there" in run("status").err


def test_python_says_it_too(database: Path) -> None:
    damage(database, "decisions", "seen = '{'")
    with pytest.raises(StoreError, match="is damaged: table decisions, seen of row 1 cannot be read"):
        rlplan.open(database).sweep()


@pytest.mark.parametrize(
    ("table", "change"), [("sweeps", "config = '{'"), ("points", "score = 'high'"), ("decisions", "seen = '7'")]
)
def test_the_dashboard_says_it_too(database: Path, table: str, change: str) -> None:
    damage(database, table, change)
    with visiting(database, raise_server_exceptions=False) as client:
        for path in ("/", "/sweeps/sweep-1", "/sweeps/sweep-1/trials/1", "/sweeps/sweep-1/data.json", "/healthz"):
            answer = client.get(path)
            listed = path == "/healthz" or (path == "/" and table != "sweeps")
            assert answer.status_code == (200 if listed else 503), path
            assert listed or f"is damaged: table {table}, " in answer.text, path
            assert not any(trace in answer.text for trace in TRACES), path
        assert client.get("/static/rlplan.css").status_code == 200
