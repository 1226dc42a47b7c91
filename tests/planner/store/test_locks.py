"""A process that opens a database a second time keeps the locks that its first connections hold on the file."""

import subprocess
import sys
from pathlib import Path

from planner.store import open_store
from tests.planner.store.samples import NOON, plan

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
