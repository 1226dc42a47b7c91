"""`rlplan doctor` on this machine, and what it prints of made-up findings."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from planner.store import open_store
from planner.store.driving import Driver, take_lease
from planner.store.sweeps import sweep_named
from rlplan.answers import doctor
from rlplan.doctor import storage
from rlplan.doctor.examination import run as run_try
from rlplan.doctor.finding import Finding, Health, bad, mind, ok
from rlplan.wording.draw import Canvas
from runner.processes import SWEEP_TAG, sweep_tag
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import seeded

LONG = "a reason that is told in so many words that no narrow terminal has room for all of them on one line of its own"
FOUND = (
    ok("cores", "8"),
    mind(
        "vLLM", "not installed", LONG, "pip install 'rlplan[vllm]' --index-url https://example.org/a/very/long/address"
    ),
    bad("disk", "±0 GiB", "no room", "rm"),
)


def test_this_machine_is_examined_and_nothing_is_made(run: Run, tmp_path: Path) -> None:
    ran = run("doctor", "--format", "json")
    document = ran.json
    found = {each["what"]: each for each in document["findings"]}
    assert {"Python", "packages", "torch", "cores", "memory", "GPUs", "database", "disk"} <= found.keys()
    assert found["Python"]["health"] == "ok"
    assert found["database"]["found"].endswith("is not there yet; `rlplan propose` makes it")
    assert ran.code == (3 if document["verdict"] == "bad" else 0)
    assert list(tmp_path.iterdir()) == []


def test_doctor_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from rlplan.doctor.examination import examine; list(examine('none.db')); "
        "print([name for name in ('torch', 'ray', 'transformers', 'scipy', 'plotly') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("found", "code"), [(FOUND[:1], 0), (FOUND[:2], 0), (FOUND, 3)])
def test_the_exit_code_says_whether_sweeps_can_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, found: tuple[Finding, ...], code: int
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda database, deep: iter(found))
    assert run("doctor").code == code
    rows = run("doctor", "--format", "csv").rows
    assert [(row["health"], row["what"], row["do"]) for row in rows] == [
        (each.health.value, each.what, each.do) for each in found
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_table_fits_and_its_commands_stay_whole(width: int, unicode: bool) -> None:
    lines = [line.plain for line in doctor.lines(FOUND, Canvas(width, unicode=unicode))]
    commands = [line for line in lines if line.lstrip().startswith(">")]
    assert commands == [f"      > {each.do}" for each in FOUND if each.do]
    assert all(len(line) <= width for line in lines if line not in commands)
    assert " ".join(LONG.split()) in " ".join(" ".join(lines).split())
    assert unicode or "".join(lines).isascii()


def test_a_sweep_whose_driver_is_silent_is_told_with_what_it_left(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    seeder = seeded(path)
    seeder.store.close()
    with open_store(path) as store, store.write() as session:
        row = sweep_named(session, None)
        row.config = {**row.config, "folder": str(tmp_path / "sweep-1")}
        now = datetime.now(UTC) - timedelta(hours=1)
        take_lease(session, row.name, Driver("silent@1", "elsewhere", 12), now, former_is_dead=True)
    tag = {SWEEP_TAG: sweep_tag(str(tmp_path / "sweep-1"))}
    left = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, **tag},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert left.stdout is not None
        left.stdout.readline()
        findings = {each.what: each for each in storage.check(storage.probe(str(path)))}
    finally:
        left.communicate(b"\n")
    assert findings["sweep-1"].found == "its driver, process 12 on elsewhere, is gone"
    if Path("/proc").is_dir():
        assert findings["orphans"].do == f"kill {left.pid}"


@pytest.mark.parametrize(
    ("make", "health", "told"),
    [
        (lambda path: path.write_text("x" * 999), Health.BAD, "is not an SQLite database"),
        (lambda path: path.mkdir(), Health.BAD, "is a directory"),
        (lambda path: None, Health.OK, "is not there yet"),
    ],
)
def test_what_lies_at_the_path_is_told(
    tmp_path: Path, make: Callable[[Path], object], health: Health, told: str
) -> None:
    path = tmp_path / "some.db"
    make(path)
    found = next(iter(storage.check(storage.probe(str(path)))))
    assert found.health is health
    assert told in f"{found.found} {found.why}"


@pytest.mark.parametrize("database", ["mysql://host/db", "postgresql://nobody@127.0.0.1:1/none"])
def test_databases_that_cannot_be_reached_are_bad(database: str) -> None:
    found = next(iter(storage.check(storage.probe(database))))
    assert found.health is Health.BAD
    assert found.do


def test_a_try_ends_with_its_time_and_leaves_nothing() -> None:
    passed = run_try("works", "print('first'); print('it does')", 30.0)
    assert (passed.health, passed.found.partition(",")[0]) == (Health.OK, "it does")
    failed = run_try("fails", "raise ImportError('no such thing')", 30.0)
    assert (failed.health, failed.found) == (Health.BAD, "ImportError: no such thing")
    late = run_try("hangs", "import time; time.sleep(60)", 0.5)
    assert (late.health, late.found) == (Health.BAD, "not done after 0.5 s")
