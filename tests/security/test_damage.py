"""A database that is damaged is called so, in every command and on the dashboard: which table, and what to do."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

import rlplan
from budgets.errors import StoreError
from planner.store import open_store
from planner.store.schema import Decision, Plan, Sweep
from tests.rlplan.conftest import Run, run  # noqa: F401 (a fixture)
from tests.rlplan.recommend_sweeps import ended, trials
from tests.rlplan.web.visits import visiting

POINTS, EXPORT = "export - --what points", "export - --what all --format json"
# By table: what happens to it, and who reads that. No JSON, JSON of another shape, no date, none of an enumeration,
# text or bytes for a number, more than any number, bytes that are no text, a parent that is gone.
CASES = (
    ("plans", "workload = '{'", ("status", "rank plan-1", "report out.html", "recommend")),
    (
        "plans",
        'workload = replace(workload, \'"mean_pass_rate": \', \'"mean_pass_rate": NaN, "was": \')',
        ("report out.html", "status"),
    ),
    (
        "recommendations",
        f"details = replace(details, '\"score_high\": 0', '\"score_high\": 1{'0' * 400}')",
        ("report out.html", "recommend"),
    ),
    ("plans", "hardware = '[7]'", ("rank plan-1", "status")),
    ("plans", "pilot_gpu_hours = 'x'", ("status --all",)),
    ("candidates", "axes = '[1,[2]]'", ("rank plan-1", "report out.html")),
    ("candidates", """axes = '{"recipe": {"a": {}}}'""", ("rank plan-1", "report out.html")),
    ("candidates", f"""axes = '{{"learning_rate": 1{"0" * 400}}}'""", ("rank plan-1", "report out.html")),
    ("candidates", "gpu_hours_per_step = 9e999", ("rank plan-1",)),
    ("sweeps", "config = '{'", ("status", "rank", "recommend", "report out.html", EXPORT)),
    ("sweeps", "config = '[1]'", ("status --all", "status TRIAL", "decisions")),
    ("sweeps", "created_at = 'soon'", ("status", "rank")),
    ("sweeps", "status = 'gone'", ("status", "recommend")),
    ("sweeps", "plan_id = 77", ("status",)),
    ("trials", "axes = 'all of them'", ("status", POINTS)),
    ("trials", "state = 'asleep'", ("status TRIAL", "report out.html")),
    ("trials", "learning_rate = 9e999", ("status", EXPORT)),
    ("trials", "name = x'ff00fe'", ("status", POINTS)),
    ("trials", "name = cast(x'ff' as text)", ("status", POINTS)),
    ("segments", "outcome = 'odd'", ("status TRIAL", "status")),
    ("segments", "started_at = 7", ("report out.html", EXPORT)),
    ("points", "score = 'high'", ("status", "recommend", POINTS)),
    ("points", "gpu_hours = -9e999", ("status TRIAL", "recommend")),
    ("points", "metrics = '{'", (POINTS, EXPORT)),
    ("transitions", "to_state = 'x'", ("status TRIAL",)),
    ("decisions", "seen = '{'", ("decisions", "report out.html")),
    ("decisions", "alternatives = '7'", ("decisions", EXPORT)),
    ("decisions", "at = 'yesterday'", ("decisions", "status")),
    ("fits", "predicted_mean = 'low'", ("status", "status TRIAL")),
    ("charges", "gpu_hours = 9e999", ("status --all",)),
    ("recommendations", "details = '{'", ("status", "report out.html")),
    ("rankings", "expected_score = 'best'", ("rank", "status")),
    ("rankings", "axes = '{'", ("rank",)),
)


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
    readers: tuple[str, ...],
) -> None:
    trial = trials(database)[0].name
    damage(database, table, change)
    for reader in readers:
        ran = run(*reader.replace("TRIAL", trial).split(), "--db", str(database))
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), (reader, ran.err)
        assert f"rlplan: {database} is damaged: table {table}, " in ran.err, reader
        assert "Go back to a copy of it" in ran.err


@pytest.mark.parametrize(
    ("table", "change", "reader"),
    [
        ("plans", "workload = json_set(workload, '$.response_tokens', -1e308)", "recommend"),
        ("plans", "workload = json_set(workload, '$.parameters', json('[[]]'))", "recommend"),
        ("plans", "workload = json_set(workload, '$.prompt_set_size', 'x')", "recommend"),
        ("plans", "config = json_set(config, '$.workload.response_tokens', 'x')", "preview plan-1"),
        ("sweeps", "config = json_set(config, '$.training', 'x')", "recommend"),
        ("sweeps", "config = json_set(config, '$.training', 'x')", "report out.html"),
    ],
)
def test_a_document_whose_values_are_of_no_use_is_damage_too(
    run: Run,  # noqa: F811
    database: Path,
    table: str,
    change: str,
    reader: str,
) -> None:
    damage(database, table, change)
    ran = run(*reader.split(), "--db", str(database))
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert "is damaged: its " in ran.err


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
    with visiting(database) as client:
        for path in ("/", "/sweeps/sweep-1", "/sweeps/sweep-1/data.json"):
            answer = client.get(path)
            listed = path == "/" and table != "sweeps"
            assert answer.status_code == (200 if listed else 503), path
            assert listed or f"is damaged: table {table}, " in answer.text, path
            assert "Traceback" not in answer.text
        assert client.get("/static/page.css").status_code == 200


def test_a_key_that_is_gone_from_a_document_is_damage(database: Path) -> None:
    damage(database, "sweeps", "config = json_remove(config, '$.pilot_gpu_hours')")
    damage(database, "plans", "config = json_remove(config, '$.workload.task')")
    damage(database, "decisions", "seen = json_object('x', 1)")
    with open_store(database, read_only=True) as store, store.read() as session:
        sweep, plan = session.scalars(select(Sweep)).one(), session.scalars(select(Plan)).one()
        decision = session.scalars(select(Decision).limit(1)).one()
        for document, key in (
            (sweep.config, "pilot_gpu_hours"),
            (plan.config["workload"], "task"),
            (decision.seen, "rule"),
        ):
            with pytest.raises(StoreError, match=f"is damaged: a stored document has no '{key}'"):
                document[key]
            assert document.get(key) is None
