"""The GPUs of this machine, as nvidia-smi lists them, its disks, and what a look at it finds."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlplan.exits import ExitCode
from rlplan.wording.answers import Answer, Key, columns
from rlplan.wording.screen import Canvas, Invocation, NextStep, Part, live_console, next_steps

if TYPE_CHECKING:
    from rich.text import Text


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
    healths = {finding.health for finding in findings}
    return next((health for health in (Health.BAD, Health.MIND) if health in healths), Health.OK)


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


_STYLES = {Health.OK: "green", Health.MIND: "yellow", Health.BAD: "bold red"}
_VERDICTS = {
    Health.OK: "This machine can run sweeps.",
    Health.MIND: "This machine can run sweeps; mind what is marked.",
    Health.BAD: "No sweep runs here: mend what is marked bad first.",
}
_REHEARSED = {
    Health.OK: "It can be run as it is planned.",
    Health.MIND: "It can be run; mind what is marked.",
    Health.BAD: "It would fail: mend what is marked bad first.",
}


@dataclass(frozen=True, repr=False)
class Findings(Answer):
    """What was found of this machine, or by a rehearsal."""

    COLUMNS = columns("health what found why do")
    ROWS = "found"

    found: tuple[Finding, ...] = field(repr=False)
    rehearsed: bool = field(default=False, repr=False)

    verdict = Key[Health](lambda findings: verdict(findings.found))
    findings = Key[Sequence[Finding]]("found")

    @property
    def code(self) -> ExitCode:
        """That of what is not there, or of bad input, where something is bad."""
        if self.verdict is not Health.BAD:
            return ExitCode.DONE
        return ExitCode.BAD_INPUT if self.rehearsed else ExitCode.NOT_FOUND

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the verdict and what it rests on; on the first screen of an examination what is well is named alone."""
        found, verdicts = self.found, _REHEARSED if self.rehearsed else _VERDICTS
        yield from canvas.lines(verdicts[verdict(found)], "bold")
        yield ""
        in_full = invocation.explain or self.rehearsed
        well = [] if in_full else [finding for finding in found if finding.health is Health.OK]
        if shown := [finding for finding in found if finding not in well]:
            yield from lines(shown, canvas)
        if well:
            # What is absent, and not needed for a first sweep, is called so.
            absent = [(finding.what, re.match(r"(none|not installed)[:;]", finding.found)) for finding in well]
            yield from canvas.lines(f"ok: {', '.join(f'{what} ({so[1]})' if so else what for what, so in absent)}.")
        if self.rehearsed:
            bad = verdict(found) is Health.BAD
            again = invocation.with_flags("tries it again") if bad else invocation.without("runs it", "--rehearse")
            yield from next_steps([again], canvas)
            return
        steps = [NextStep("rlplan propose --task sum-easy --budget 0.3", "plans a first sweep")]
        steps = [] if verdict(found) is Health.BAD else steps
        steps += [] if invocation.explain else [invocation.explained("every finding")]
        if steps:
            yield from next_steps(steps, canvas)


def rehearsal(findings: Iterable[Finding]) -> Findings:
    """Return what a rehearsal finds; a terminal shows what was found last until the answer is there."""
    if (console := live_console()) is None:
        return Findings(tuple(findings), rehearsed=True)
    done: list[Finding] = []
    with console.status("rehearsing") as status:
        for finding in findings:
            status.update(f"{finding.what}: {finding.found}")
            done.append(finding)
    return Findings(tuple(done), rehearsed=True)


def lines(findings: Sequence[Finding], canvas: Canvas) -> "Iterator[Text]":
    """Write each finding under its name; a command is never broken, so that it can be copied."""
    from rich.text import Text  # noqa: PLC0415

    indent = 6 + max(len(finding.what) for finding in findings) + 2
    for finding in findings:
        first = f"{finding.health:<6}{finding.what:<{indent - 6}}"
        yield from _hanging(first, finding.found, indent, canvas, _STYLES[finding.health])
        if finding.why:
            yield from _hanging(" " * indent, finding.why, indent, canvas)
        if finding.do:
            yield Text(canvas.spelled(f"{' ' * 6}> {finding.do}"), style="bold", overflow="fold")


def _hanging(first: str, text: str, indent: int, canvas: Canvas, style: str = "") -> "Iterator[Text]":
    """Write a text behind its beginning, and its further lines below itself."""
    from rich.text import Text  # noqa: PLC0415

    column = Canvas(max(20, canvas.width - indent), unicode=canvas.unicode)
    for number, line in enumerate(column.lines(text)):
        yield Text.assemble((" " * indent if number else first, style), line, no_wrap=True)
