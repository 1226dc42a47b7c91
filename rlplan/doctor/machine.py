"""Cores, memory, GPUs, shared memory and disks of this machine."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlplan.doctor.finding import Finding, bad, mind, ok
from runner.machine import cpu_cores

GIB = 2**30
SMI_SECONDS = 4.0
LEAST_SHARED = GIB // 4
RAY_FULL = 0.95  # share of a disk from which on Ray stores nothing more on it


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    name: str
    total_bytes: float
    free_bytes: float


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk below a folder."""

    folder: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What the machine has."""

    cores: float
    total_bytes: int  # of memory, or what a container allows of it
    free_bytes: int
    gpus: tuple[Gpu, ...]
    gpu_trouble: str | None  # why GPUs that there seem to be cannot be asked
    torch_cuda: str | None
    shared: Disk | None
    temporary: Disk | None


def probe(torch_cuda: str | None) -> Machine:
    """Look at this machine."""
    import psutil  # noqa: PLC0415

    memory = psutil.virtual_memory()
    allowed = _container_bytes()
    gpus, trouble = _gpus()
    return Machine(
        cores=float(cpu_cores()),
        total_bytes=min(memory.total, allowed or memory.total),
        free_bytes=min(memory.available, allowed or memory.available),
        gpus=gpus,
        gpu_trouble=trouble,
        torch_cuda=torch_cuda,
        shared=disk_of(Path("/dev/shm")),
        temporary=disk_of(Path(tempfile.gettempdir())),
    )


def check(facts: Machine) -> Iterator[Finding]:
    """Say what the machine can carry."""
    yield _cores(facts)
    yield _memory(facts)
    yield _graphics(facts)
    yield from _shared(facts)
    yield from _temporary(facts)


def size(amount: float) -> str:
    """Write a number of bytes."""
    return f"{amount / GIB:,.0f} GiB" if amount >= 10 * GIB else f"{amount / GIB:.2g} GiB"


def disk_of(folder: Path) -> Disk | None:
    """Look at the disk below a folder; None where there is none."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(str(folder), usage.total, usage.free)


def _cores(facts: Machine) -> Finding:
    if facts.cores >= 2:
        return ok("cores", f"{facts.cores:g}")
    return mind("cores", "1", "one worker runs at a time, and shares its core with Ray and the driver")


def _memory(facts: Machine) -> Finding:
    found = f"{size(facts.free_bytes)} free of {size(facts.total_bytes)}"
    do = "end what else runs, or run fewer workers: rlplan sweep --workers 1"
    if facts.free_bytes < GIB:
        return bad("memory", found, "Ray and one worker of an embedded task take about 1 GiB", do)
    if facts.free_bytes < 3 * GIB:
        return mind("memory", found, "each worker of an embedded task takes about 0.5 GiB, Ray as much again", do)
    return ok("memory", found)


def _graphics(facts: Machine) -> Finding:
    if facts.gpu_trouble is not None:
        why = "there are GPUs, but their driver does not answer: trials on them would fail"
        return mind(
            "GPUs", facts.gpu_trouble, why, "nvidia-smi says more; the driver may have to be installed or loaded again"
        )
    if not facts.gpus:
        return ok("GPUs", "none: the embedded tasks run on the CPU; for larger models join a cluster, --ray-address")
    kinds = sorted({f"{each.name} with {size(each.total_bytes)}" for each in facts.gpus})
    found = f"{len(facts.gpus)} × {', '.join(kinds)}"
    if facts.torch_cuda is None:
        do = (
            f"{sys.executable} -m pip install --force-reinstall 'torch>=2.11,<2.14' --index-url https://pypi.org/simple"
        )
        return mind("GPUs", found, "the installed torch is built for the CPU and cannot use them", do)
    busy = [each for each in facts.gpus if each.free_bytes < each.total_bytes / 2]
    if busy:
        why = f"{len(busy)} of them have less than half of their memory free: trials on these may run out of it"
        return mind("GPUs", found, why, "nvidia-smi shows which processes hold it")
    return ok("GPUs", found)


def _shared(facts: Machine) -> Iterator[Finding]:
    if facts.shared is None:
        return
    found = f"{size(facts.shared.free_bytes)} free of {size(facts.shared.total_bytes)}"
    if facts.shared.free_bytes >= LEAST_SHARED:
        yield ok("/dev/shm", found)
        return
    why = "Ray keeps its objects there; with less it uses the disk, which is slower"
    yield mind("/dev/shm", found, why, "in Docker: docker run --shm-size=2g …; else: mount -o remount,size=2G /dev/shm")


def _temporary(facts: Machine) -> Iterator[Finding]:
    disk = facts.temporary
    if disk is None or disk.total_bytes == 0:
        return
    used = 1 - disk.free_bytes / disk.total_bytes
    found = f"{disk.folder}, {size(disk.free_bytes)} free"
    if used < RAY_FULL:
        yield ok("temporary files", found)
    else:
        why = f"the disk is {100 * used:.0f} % full; Ray stores nothing more from {100 * RAY_FULL:.0f} % on"
        yield mind("temporary files", found, why, "free some space, or: export TMPDIR=<a folder on another disk>")


def _gpus() -> tuple[tuple[Gpu, ...], str | None]:
    there = any(Path("/dev").glob("nvidia[0-9]*"))
    command = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=True)
    except FileNotFoundError:
        return (), "nvidia-smi is not installed" if there else None
    except subprocess.TimeoutExpired:
        return (), f"nvidia-smi does not answer within {SMI_SECONDS:g} s"
    except (OSError, subprocess.CalledProcessError) as error:
        return (), f"nvidia-smi failed: {error}" if there else None
    return tuple(read_gpus(done.stdout)), None


def read_gpus(text: str) -> Iterator[Gpu]:
    """Read what nvidia-smi printed; a line with memory that it does not know is passed over."""
    for line in text.splitlines():
        with suppress(ValueError):
            name, total, free = (part.strip() for part in line.rsplit(",", 2))
            yield Gpu(name, float(total) * 2**20, float(free) * 2**20)


def _container_bytes() -> int | None:
    """Return what a container's memory is limited to."""
    with suppress(OSError, ValueError):
        return int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    return None
