"""What `pip install` brings: a wheel in a fresh environment, used outside of the checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
# Neither the checkout nor the environment that runs the tests may lend the wheel anything.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RLPLAN", "VIRTUAL_ENV"))}


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(command, cwd=cwd, env=CLEAN, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done.stdout or done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    [found] = folder.glob("rlplan-*.whl")
    return found


@pytest.fixture(scope="module")
def light(wheel: Path) -> Path:
    """Return the folder of programs of an environment that has the wheel and what it asks for, and nothing else."""
    run(sys.executable, "-m", "venv", wheel.parent / "env", cwd=wheel.parent)
    programs = wheel.parent / "env" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel, cwd=wheel.parent)
    return programs


@pytest.fixture(scope="module")
def installed(light: Path, wheel: Path) -> Path:
    """Return the same with what sweeps need."""
    run(light / "python", "-m", "pip", "install", "--quiet", f"{wheel}[sweep]", cwd=wheel.parent)
    return light


def test_a_light_installation_plans_and_says_what_a_sweep_needs(light: Path, tmp_path: Path) -> None:
    rlplan = light / "rlplan"
    assert json.loads(run(rlplan, "propose", "--budget", "5000", "--format", "json", cwd=tmp_path))["candidates"]
    run(rlplan, "price", "-n", "16", "-B", "64", cwd=tmp_path)
    run(rlplan, "preview", "--draws", "2", cwd=tmp_path)
    assert "data.train_batch_size" in run(rlplan, "launch", "--print", "verl", cwd=tmp_path)
    for needs in (["sweep", "--task", "sum-easy", "--budget", "0.02"], ["dashboard"]):
        said = run(rlplan, *needs, "--db", "none.db", cwd=tmp_path, code=2)
        assert f"pip install 'rlplan[{needs[0]}]'" in said
    assert not (tmp_path / "none.db").exists()


def test_the_wheel_sweeps_outside_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    rlplan = installed / "rlplan"
    run(rlplan, "sweep", "--task", "sum-easy", "--budget", "0.02", "--db", "tiny.db", cwd=tmp_path)
    [sweep] = json.loads(run(rlplan, "status", "--all", "--db", "tiny.db", "--format", "json", cwd=tmp_path))["sweeps"]
    assert sweep["state"] == "finished"
    run(rlplan, "report", "report.html", "--db", "tiny.db", cwd=tmp_path)
    assert "<html" in (tmp_path / "report.html").read_text()


def test_the_wheel_holds_everything_that_the_packages_read(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import rlplan; print(rlplan.__file__)", cwd=tmp_path).strip()
    site = Path(where).parents[1]
    assert site.name == "site-packages"
    tracked = run("git", "ls-files", "budgets", "planner", "runner", "rlplan", cwd=ROOT).splitlines()
    assert [path for path in tracked if not (site / path).exists()] == []
