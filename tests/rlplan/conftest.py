import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlplan.cli import app
from tests.rlplan.fit_samples import write
from tests.rlplan.sweep_rows import Seeder, seeded


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    @property
    def text(self) -> str:
        """What stands on stdout, wherever its lines are broken."""
        return " ".join(self.out.split())

    @property
    def rows(self) -> list[dict[str, str]]:
        """Return the rows of CSV."""
        return list(csv.DictReader(io.StringIO(self.out)))


@dataclass(frozen=True)
class Run:
    """Runs commands."""

    call: Callable[..., Ran]

    def __call__(self, *args: str, **options: Any) -> Ran:
        return self.call(*args, **options)

    def json(self, *args: str) -> Any:
        """Return the document of a command that does what it is asked."""
        ran = self(*args, "--format", "json")
        assert ran.code == 0, ran.err
        return ran.json


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("RLPLAN_DB", "RLPLAN_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: str, width: int = 80) -> Ran:
        result = CliRunner().invoke(app, list(args), env={"COLUMNS": str(width)})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return Run(call)


@pytest.fixture
def process(tmp_path: Path) -> Run:
    """Run a command as a process of its own, in an empty directory."""

    def call(*args: str, **env: str) -> Ran:
        command = [str(Path(sys.executable).with_name("rlplan")), *args]
        done = subprocess.run(
            command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, text=True, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return Run(call)


@pytest.fixture
def simulated_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let sweeps run in an empty directory, with simulated workers instead of Ray."""
    from tests.rlplan.test_sweeping import Simulated, simulate

    monkeypatch.chdir(tmp_path)
    simulate(monkeypatch)
    Simulated.made.clear()


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "rlplan.db")


@pytest.fixture
def seeder(tmp_path: Path) -> Iterator[Seeder]:
    """A sweep in the middle of its life, row by row, in a database."""
    opened = seeded(tmp_path / "rlplan.db")
    yield opened
    opened.store.close()


@pytest.fixture(scope="session")
def swept_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a simulated sweep that has ended, and its database: what tests take copies of."""
    from tests.rlplan.test_sweeping import swept_in

    return swept_in(tmp_path_factory.mktemp("swept"))


@pytest.fixture
def swept(simulated_workers: None, swept_folder: Path, tmp_path: Path) -> str:
    """The database of a copy of that sweep which is the test's own, in the directory where it runs."""
    shutil.copytree(swept_folder, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "rlplan.db")


@pytest.fixture
def one(tmp_path: Path) -> str:
    """A file with one curve to fit."""
    return str(write(tmp_path / "one.csv"))


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that takes any job, and the file that it writes down what it was called with."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sbatch").write_text(
        f'#!/bin/bash\necho "$* $RLPLAN_DB" >> {tmp_path}/calls\n'
        f'[ ! -e {tmp_path}/refuses ] || {{ echo "sbatch: error: invalid account" >&2; exit 1; }}\necho "41;here"\n'
    )
    (programs / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path / "calls"
