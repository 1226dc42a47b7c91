"""The GPUs of this machine, as nvidia-smi lists them, its disks, and what the doctor finds."""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path


class Health(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    MIND = "mind"  # sweeps run, but slower, smaller or later than they could
    BAD = "bad"  # no sweep runs before this is mended


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, why it matters, and what to do about it; the last two are empty where all is well."""

    health: Health
    what: str
    found: str
    why: str = ""
    do: str = ""


# With which all is well; with which sweeps run all the same; and with which none runs.
ok, mind, bad = (partial(Finding, health) for health in (Health.OK, Health.MIND, Health.BAD))


def verdict(findings: Iterable[Finding]) -> Health:
    """Return the worst."""
    healths = {each.health for each in findings}
    return next((each for each in (Health.BAD, Health.MIND) if each in healths), Health.OK)


GIB = 2**30
SMI_SECONDS = 4.0
LEAST_DISK, EASY_DISK = GIB // 2, 5 * GIB


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    name: str
    total_bytes: float
    free_bytes: float


def list_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """Return the GPUs, and why GPUs that there seem to be cannot be asked."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=True)
    except subprocess.TimeoutExpired:
        return (), f"nvidia-smi does not answer within {SMI_SECONDS:g} s"
    except (OSError, subprocess.CalledProcessError) as error:
        return (), f"nvidia-smi failed: {error}" if any(Path("/dev").glob("nvidia[0-9]*")) else None
    return tuple(read_gpus(done.stdout)), None


def read_gpus(text: str) -> Iterator[Gpu]:
    """Read what nvidia-smi printed; a line with memory that it does not know is passed over."""
    for line in text.splitlines():
        with suppress(ValueError):
            name, total, free = (part.strip() for part in line.rsplit(",", 2))
            yield Gpu(name, float(total) * 2**20, float(free) * 2**20)


def check_gpus(gpus: tuple[Gpu, ...], trouble: str | None, torch_cuda: str | None) -> Finding:
    """Say what GPUs there are, and whether a torch that is built for this CUDA, or none, can use them."""
    if trouble is not None:
        why = "there are GPUs, but their driver does not answer: trials on them would fail"
        return mind("GPUs", trouble, why, "nvidia-smi says more; the driver may have to be installed or loaded again")
    if not gpus:
        return ok("GPUs", "none: the embedded tasks run on the CPU; for larger models join a cluster, --ray-address")
    kinds = sorted({f"{gpu.name} with {size(gpu.total_bytes)}" for gpu in gpus})
    listed = f"{len(gpus)} × {', '.join(kinds)}"
    if torch_cuda is None:
        install = f"{sys.executable} -m pip install --force-reinstall 'torch>=2.11,<2.14'"
        return mind("GPUs", listed, "the installed torch is built for the CPU and cannot use them", install)
    if busy := sum(gpu.free_bytes < gpu.total_bytes / 2 for gpu in gpus):
        why = f"{busy} of them have less than half of their memory free: trials on these may run out of it"
        return mind("GPUs", listed, why, "nvidia-smi shows which processes hold it")
    return ok("GPUs", listed)


def check_disk(folder: Path, free_bytes: int | None = None) -> Finding:
    """Say whether a folder's disk has room for a sweep."""
    free_bytes = shutil.disk_usage(folder).free if free_bytes is None else free_bytes
    room = f"{size(free_bytes)} free in {folder}"
    remedy = "free some space, or give another path with --db, and --folder for checkpoints"
    if free_bytes < LEAST_DISK:
        return bad("disk", room, "the database and the checkpoints of a sweep need more", remedy)
    if free_bytes < EASY_DISK:
        return mind("disk", room, "checkpoints of all but the embedded tasks' models may fill it", remedy)
    return ok("disk", room)


def size(amount: float) -> str:
    """Write a number of bytes."""
    return f"{amount / GIB:,.0f} GiB" if amount >= 10 * GIB else f"{amount / GIB:.2g} GiB"
