"""Several real processes on one SQLite file."""

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from budgets.errors import StoreError
from planner.store import open_store, results
from tests.planner.store import samples
from tests.planner.store.samples import NOON, plan

PRELUDE = """
import sys
from pathlib import Path
from planner.store import open_store, results
from tests.planner.store import samples
path, start, who = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
while not start.exists():
    pass
"""


OPEN_SEVERAL = PRELUDE + "for number in range(10): open_store(path.with_name(f'{number}.db')).close()"

WRITE = (
    PRELUDE
    + """
with open_store(path) as store:
    for step in range(40):
        store.save_plan(samples.plan(recipe=who), samples.candidates(), created_at=samples.NOON)
        points = [samples.point(1, each, attempt=int(who)) for each in (step, 1000 + step)]
        samples.put(store, results.add_points, points)
"""
)

WRITE_UNTIL_KILLED = (
    PRELUDE
    + """
with open_store(path) as store:
    for step in range(1, 10**6):
        samples.put(store, results.add_points, [samples.point(1, 1000 * step + part) for part in range(20)])
        print(step, flush=True)
"""
)


def together(code: str, path: Path, number: int) -> None:
    """Run the code in that many processes, let go at once, and expect all to succeed."""
    start = path.with_name("start")
    processes = [spawned(code, path, start, str(who + 1)) for who in range(number)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    ends = [process.communicate(timeout=50) for process in processes]
    assert [(process.returncode, end[1]) for process, end in zip(processes, ends, strict=True)] == [(0, "")] * number
    start.unlink()


def spawned(code: str, *arguments: object) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def killed_writer(path: Path, start: Path) -> tuple[int, int]:
    """Kill a process that stores 20 points at a time; return the trial, and how often it said that it had."""
    with open_store(path) as store:
        trial_id = samples.started_trial(store)
    start.touch()
    process = spawned(WRITE_UNTIL_KILLED, path, start, "1")
    assert process.stdout is not None
    while process.stdout.readline() not in ("15\n", ""):
        pass
    time.sleep(0.003)  # into the middle of some transaction
    process.kill()
    # Before communicate(), which does not see what came with the line that was waited for.
    rest = process.stdout.read()
    assert process.communicate(timeout=20)[1] == ""
    return trial_id, int([15, *rest.split()][-1])


def test_processes_that_make_the_same_files_at_once(tmp_path: Path) -> None:
    together(OPEN_SEVERAL, tmp_path / "rlplan.db", 3)
    for path in [tmp_path / f"{number}.db" for number in range(10)]:
        with open_store(path, read_only=True) as store:
            assert samples.look(store, results.ranked_allocations) == []


def test_a_file_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    path.touch()
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked: another process"):
            open_store(path, lock_timeout_seconds=0.05)
        timer = threading.Timer(0.2, other.execute, ["ROLLBACK"])
        timer.start()
        with open_store(path, lock_timeout_seconds=20.0) as store:
            assert samples.look(store, results.ranked_allocations) == []
        timer.join()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    with open_store(path) as store:
        samples.started_trial(store)
    together(WRITE, path, 3)
    with open_store(path, read_only=True) as store, store.read() as session:
        names = set(session.scalars(text("SELECT name FROM plans")))
        assert names == {f"plan-{number}" for number in range(1, 122)}
        assert session.scalar(text("SELECT count(*) FROM candidates")) == 2 * 121
        assert session.scalar(text("SELECT count(*) FROM points")) == 3 * 80


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    with open_store(path) as writer, writer.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = version_num"))
        with open_store(path, read_only=True, lock_timeout_seconds=0.0) as reader:
            assert samples.look(reader, results.ranked_allocations) == []
        with open_store(path, lock_timeout_seconds=0.0) as second:
            assert samples.look(second, results.ranked_allocations) == []


def test_a_killed_writer_leaves_what_it_committed_and_nothing_torn(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    trial_id, told = killed_writer(path, tmp_path / "start")
    assert path.with_name("rlplan.db-wal").stat().st_size > 0
    with open_store(path, read_only=True) as store:
        assert len(samples.points(store, trial_id)) >= 20 * told
    with open_store(path) as store:
        points = samples.points(store, trial_id)
        assert len(points) % 20 == 0
        # What was told to be stored is stored; of the last transaction all or nothing.
        assert len(points) // 20 in (told, told + 1)
        assert samples.put(store, results.add_points, [samples.point(trial_id, 1)]) == 1
        store.save_plan(samples.plan(), [], created_at=NOON)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def plans_in_a_copy(path: Path, folder: Path) -> int:
    """Count the plans in a copy of the file alone, without what lies beside it."""
    copy = Path(shutil.copy(path, folder / "copy.db"))
    with closing(sqlite3.connect(copy)) as database:
        return int(database.execute("select count(*) from plans").fetchone()[0])


def test_what_was_written_lies_in_the_one_file_when_its_writer_is_done(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    open_store(path).close()
    with open_store(path, read_only=True) as watching:  # such as a dashboard's, whose connections stay open
        with watching.read() as session:
            session.execute(text("select count(*) from plans"))
        with open_store(path) as store:
            store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
        assert plans_in_a_copy(path, tmp_path) == 1
        assert Path(f"{path}-wal").stat().st_size == 0


def test_a_reader_in_the_middle_of_a_look_keeps_nobody_from_closing_and_the_next_writer_folds(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    open_store(path).close()
    with open_store(path, read_only=True) as watching, watching.read() as session:
        assert session.scalar(text("select count(*) from plans")) == 0
        with open_store(path) as store:
            store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
        assert session.scalar(text("select count(*) from plans")) == 0  # its moment stays what it was
        session.rollback()
        open_store(path).close()
        assert plans_in_a_copy(path, tmp_path) == 1


OTHER = """
import sys
from planner.store import open_store
with open_store(sys.argv[1]) as store, store.write():
    pass
"""


def test_another_process_that_writes_and_leaves_takes_nothing_from_one_that_opened_it_twice(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    with open_store(path) as driver:
        driver.save_plan(plan(), [], created_at=NOON)
        with open_store(path, read_only=True) as screen:
            assert screen.plan().name == "plan-1"
            subprocess.run([sys.executable, "-c", OTHER, str(path)], check=True)
            # SQLite takes the log away only when it believes that nobody else has the database open.
            assert path.with_name("rlplan.db-wal").exists()
            assert driver.save_plan(plan(), [], created_at=NOON) == "plan-2"
        with open_store(path, read_only=True) as afterwards:
            assert afterwards.plan().name == "plan-2"
    subprocess.run([sys.executable, "-c", OTHER, str(path)], check=True)
    with open_store(path) as late:
        assert late.plan().name == "plan-2"
