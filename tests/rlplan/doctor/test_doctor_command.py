"""`rlplan doctor` on this machine, and what it prints of made-up findings."""

import subprocess
import sys
from pathlib import Path

import pytest

from rlplan.actions import machine
from rlplan.actions import machine as doctor
from rlplan.actions.machine import Finding, bad, mind, ok
from rlplan.wording.draw import Canvas
from tests.rlplan.conftest import Run

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
    assert {"packages", "torch", "Ray", "vLLM", "trainers", "GPUs", "database", "disk"} == found.keys()
    assert found["Ray"]["health"] == "ok"
    assert found["database"]["found"].endswith("is not there yet; `rlplan propose` makes it")
    assert ran.code == (3 if document["verdict"] == "bad" else 0)
    assert list(tmp_path.iterdir()) == []


def test_doctor_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from rlplan.commands.doctor import examine; list(examine('none.db')); "
        "print([name for name in ('torch', 'ray', 'transformers', 'scipy', 'plotly') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("found", "code"), [(FOUND[:1], 0), (FOUND[:2], 0), (FOUND, 3)])
def test_the_exit_code_says_whether_sweeps_can_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, found: tuple[Finding, ...], code: int
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda database: iter(found))
    assert run("doctor").code == code
    rows = run("doctor", "--format", "csv").rows
    assert [(row["health"], row["what"], row["do"]) for row in rows] == [
        (each.health.value, each.what, each.do) for each in found
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_table_fits_and_its_commands_stay_whole(width: int, unicode: bool) -> None:
    lines = [line.plain for line in machine.lines(FOUND, Canvas(width, unicode=unicode))]
    commands = [line for line in lines if line.lstrip().startswith(">")]
    assert commands == [f"      > {each.do}" for each in FOUND if each.do]
    assert all(len(line) <= width for line in lines if line not in commands)
    assert " ".join(LONG.split()) in " ".join(" ".join(lines).split())
    assert unicode or "".join(lines).isascii()
