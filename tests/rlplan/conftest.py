import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlplan.cli import app
from tests.rlplan.fit_samples import write
from tests.rlplan.train_backend import Scripted


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]
Use = Callable[[Scripted], Scripted]


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

    return call


@pytest.fixture
def process(tmp_path: Path) -> Run:
    """Run a command as a process of its own, in an empty directory."""

    def call(*args: str, **env: str) -> Ran:
        command = [str(Path(sys.executable).with_name("rlplan")), *args]
        done = subprocess.run(
            command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, text=True, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def one(tmp_path: Path) -> str:
    """A file with one curve to fit."""
    return str(write(tmp_path / "one.csv"))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Let `rlplan train` train with a given backend."""

    def given(backend: Scripted) -> Scripted:
        monkeypatch.setattr("rlplan.actions.training.open_backend", lambda _: backend)
        return backend

    return given
