import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from planner.store.driving import Driver, take_lease
from tests.rlplan.sweep_rows import Seeder, seeded
from tests.security.attacker import PATIENCE, TOKEN, Target, free_port


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a sweep in the middle of its life, which nobody has open."""
    path = tmp_path / "rlplan.db"
    seeded(path).store.close()
    return path


@dataclass(frozen=True)
class Fort:
    """A dashboard in a process of its own, with a token: what is attacked most."""

    target: Target
    database: Path
    log: Path
    sweep: Seeder

    def said(self) -> str:
        """Return what it has written to its terminal since it said where it listens."""
        return self.log.read_text(encoding="utf-8").partition("Ctrl-C ends it")[2]


@pytest.fixture(scope="session")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    folder = tmp_path_factory.mktemp("fort")
    database, log, port = folder / "rlplan.db", folder / "terminal.txt", free_port()
    sweep = seeded(database)
    with sweep.store.write() as session:
        take_lease(session, "sweep-1", Driver("driver-1", "node-7", 4711), datetime.now(UTC))
    rlplan = str(Path(sys.executable).with_name("rlplan"))
    command = [rlplan, "dashboard", "--db", str(database), "--port", str(port)]
    env = {"PATH": os.environ["PATH"], "RLPLAN_DASHBOARD_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
    with (
        log.open("w", encoding="utf-8") as terminal,
        subprocess.Popen(command, stdout=terminal, stderr=terminal, env=env) as process,
    ):
        try:
            while "Ctrl-C ends it" not in log.read_text(encoding="utf-8"):
                assert process.poll() is None, log.read_text(encoding="utf-8")
            yield Fort(Target(port, TOKEN), database, log, sweep)
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(PATIENCE)
            sweep.store.close()
    assert "Traceback" not in log.read_text(encoding="utf-8")
