"""A sweep's Slurm job: its text, with the part in bash that is the same for all, and how it is submitted."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from budgets.errors import InputError
from planner.config.cluster import SlurmSection

SCRIPT = "slurm.sh"
NODES_PATIENCE_SECONDS = 600  # for Ray on all nodes; then those that are there have to do
_LONGEST_LOOK = 30.0  # seconds
_WRITABLE = re.compile(r'[^\x00-\x1f\x7f-\x9f"\\]+')  # paths that keep to a line and its quotation marks
DRIVER_PATIENCE_SECONDS = 120  # for a driver that was killed with its node, until its lease has run out


@dataclass(frozen=True, slots=True)
class Job:
    """A sweep, and where it is driven from."""

    name: str  # no other sweep of the user has it
    sweep: str
    folder: Path  # the sweep's
    database: Path | None  # None for a server, whose address holds a password and stays in the environment
    directory: Path  # what relative paths are relative to
    programs: Path  # the directory of rlplan and ray
    nodes: int
    gpus_per_node: int
    options: tuple[str, ...]  # further ones of `rlplan resume`
    settings: SlurmSection


def nodes_for(gpus: int, per_node: int, section: SlurmSection) -> int:
    """Return how many nodes hold so many GPUs, unless the section says so; one on a CPU."""
    return section.nodes or (-(-gpus // per_node) if gpus else 1)


def text_of(job: Job) -> str:
    """Return the script, which sbatch takes; InputError where a path could not stand in it."""
    for text in (job.sweep, job.name, job.directory, job.folder, job.programs, job.database):
        if text is not None and not _WRITABLE.fullmatch(str(text)):
            raise InputError(
                f"{str(text)!r} cannot stand in a job's script: a path there may have neither control characters nor "
                'quotation marks (") nor backslashes; rename it, or give another folder with --folder or --db'
            )
    body = files("runner.slurm").joinpath("body.sh").read_text(encoding="utf-8")
    head = [
        "#!/bin/bash",
        f"# Drives {job.sweep} on a Ray of its own, stops before the time limit with everything saved, and submits",
        "# itself again until the sweep has ended. Written by `rlplan sweep --slurm`; by hand:",
        f"#     sbatch {shlex.quote(str(job.folder / SCRIPT))}",
        *(f"#SBATCH {option}" for option in _options(job)),
    ]
    return "\n".join([*head, "", *_settings(job), "", body])


def _options(job: Job) -> Iterator[str]:
    settings = job.settings
    yield f"--job-name={job.name}"
    yield "--dependency=singleton"  # never two jobs of one sweep at once
    yield f"--nodes={job.nodes}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={settings.cpus_per_node}" if settings.cpus_per_node else "--exclusive"
    yield f"--mem={settings.memory or 0}"
    if job.gpus_per_node:
        yield f"--gpus-per-node={job.gpus_per_node}"
    for name in ("time", "partition", "account"):
        if value := getattr(settings, name):
            yield f"--{name}={value}"
    yield f"--signal=B:USR1@{settings.margin_seconds}"
    yield "--requeue"
    yield "--no-kill"  # the loss of a node is no loss of the sweep
    yield "--open-mode=append"
    yield f"--chdir={_quoted(str(job.directory))}"
    yield f"--output={_quoted(str(job.folder / 'logs').replace('%', '%%') + '/slurm-%j.log')}"
    yield from settings.sbatch


def _settings(job: Job) -> Iterator[str]:
    database = [] if job.database is None else ["--db", str(job.database)]
    resume = ["rlplan", "resume", job.sweep, *database, f"--wait={DRIVER_PATIENCE_SECONDS}", *job.options]
    yield f"sweep={shlex.quote(job.sweep)}"
    yield f"folder={shlex.quote(str(job.folder))}"
    yield f"resume=({shlex.join(resume)})"
    yield f"patience={NODES_PATIENCE_SECONDS}"
    if job.database is None:
        yield ': "${RLPLAN_DB:?give the address of the database, which is not written here for it may hold a password}"'
    yield f"export PATH={shlex.quote(str(job.programs))}:$PATH"
    yield from job.settings.setup


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w/.,:=+@%-]*", text) else f'"{text}"'


def require_sbatch() -> None:
    """Raise InputError where jobs cannot be submitted."""
    if shutil.which("sbatch") is None:
        raise InputError(
            "there is no sbatch on this machine: give the command on a login node of the cluster, or write the job "
            "with --dry-run and submit it there"
        )


def is_ending(name: str) -> bool:
    """Whether the jobs of that name are all about to end, as after scancel: Slurm starts the next one after them."""
    command = ["squeue", "--noheader", f"--name={name}", "--format=%T"]
    try:
        jobs = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LONGEST_LOOK).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return False
    return bool(jobs) and set(jobs) <= {"COMPLETING", "CANCELLED"}


def submit(script: Path, environment: Mapping[str, str], verb: str = "resume") -> str:
    """Submit a job and return its id; InputError with Slurm's own words when it is refused."""
    command = ["sbatch", "--parsable", str(script)]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        text = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise InputError(
            f"Slurm has refused {script} ({text}): change [slurm] in rlplan.toml or give options of sbatch, and submit "
            f"with `rlplan {verb} --slurm --sbatch=OPTION`"
        )
    return done.stdout.strip().partition(";")[0]
