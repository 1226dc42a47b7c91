"""What `--slurm` does on `rlplan sweep`, `launch`, `resume` and `retry`: store it, write its job, and submit that."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgets.errors import InputError, StoreError
from planner.config.cluster import SlurmSection
from planner.store import Store, open_store
from planner.store.control import GRACE
from planner.store.engine import locate
from planner.store.schema import Plan, Sweep
from planner.store.sweeps import sweep_named
from rlplan.actions.configuration import load_configuration
from rlplan.actions.final_run import store_only as store_final
from rlplan.actions.sweeping import set_up_again, store_only, unended_sweep
from rlplan.requests.run import GoOnRequest, LaunchRequest, ResumeRequest, RetryRequest, SweepRequest
from rlplan.wording.answers import Answer, columns
from rlplan.wording.numbers import plural
from rlplan.wording.screen import Canvas, Invocation, NextStep, Part, next_steps
from runner.processes import has_driver
from runner.slurm.job import SCRIPT, Job, is_ending, nodes_for, require_sbatch, submit, text_of
from runner.sweep.home import home_of, token_of
from runner.sweep.spec import SweepSpec
from runner.training.trial import replace_file

# Options of sbatch that are keys of [slurm]; all others are passed on as they are.
KEYS = {
    "--nodes": "nodes",
    "--cpus-per-task": "cpus_per_node",
    "--mem": "memory",
    "--time": "time",
    "--partition": "partition",
    "--account": "account",
}
NUMBERS = ("nodes", "cpus_per_node")


@dataclass(frozen=True, repr=False)
class Submitted(Answer):
    """A sweep's job; `job` is None where its script was only written."""

    COLUMNS = columns("sweep plan job name script nodes gpus_per_node time_limit")

    sweep: str
    plan: str
    job: str | None
    name: str
    script: str
    nodes: int
    gpus_per_node: int
    time_limit: str | None

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Say what was submitted, how to follow it, and how to end it."""
        gpus = f" of {self.gpus_per_node} GPUs" if self.gpus_per_node else ""
        limit = f", {self.time_limit} each time" if self.time_limit else ""
        script = Path(self.script)
        what = f"{self.sweep} of {self.plan} on {plural(self.nodes, 'node')}{gpus}{limit}"
        if self.job is None:
            yield from canvas.lines(f"{what}: its job was written, and nothing was submitted.", "bold")
            by_hand = NextStep(f"sbatch {shlex.quote(str(script))}", "submits it")
            shows = invocation.step("status", self.sweep, "how it stands")
            yield from next_steps([by_hand, shows], canvas)
            return
        yield from canvas.lines(f"{what}: submitted as job {self.job}, {script}", "bold")
        log = script.parent / "logs" / f"slurm-{self.job}.log"
        yield from canvas.lines(f"It submits itself again until the sweep has ended. Its log is {log}.")
        yield from canvas.lines(f"`scancel --name {self.name}` ends it at once, whatever it is at.")
        follows = invocation.step("status --watch", self.sweep, "follows it")
        ends = invocation.step("stop", self.sweep, "ends it with all saved")
        yield from next_steps([follows, ends], canvas)


def rehearses(request: SweepRequest | LaunchRequest) -> bool:
    """Whether it is only to be tried; refused beside what would do something else."""
    if request.rehearse and (request.slurm or request.sbatch or request.dry_run):
        raise InputError("--rehearse tries it here and now: leave out --slurm, --sbatch and --dry-run")
    return request.rehearse


def for_slurm(request: SweepRequest | LaunchRequest | GoOnRequest) -> bool:
    """Whether a job is to be submitted; refused is what makes no sense with it, or without it."""
    of_job = isinstance(request, GoOnRequest) and request.dry_run
    if not request.slurm and (request.sbatch or of_job):
        raise InputError(f"{'--sbatch' if request.sbatch else '--dry-run'} is about a job: give --slurm too")
    if request.slurm and isinstance(request, ResumeRequest) and request.wait:
        raise InputError("--wait is for a driver here; a job waits for the one before by itself: leave it out")
    if request.slurm and isinstance(request, ResumeRequest) and request.add is not None:
        raise InputError("--add and --slurm are both given, and a job that begins again would add again: add first")
    if request.slurm and request.ray_address is not None:
        raise InputError(
            f"--slurm and --ray-address {request.ray_address} are both given: a job starts a Ray of its own; leave one "
            "out"
        )
    return request.slurm


def submit_job(request: SweepRequest | LaunchRequest | GoOnRequest) -> Submitted:
    """Submit the job that drives a new sweep or final run, which is stored before, or goes on with a stored one.

    Failed trials stay failed but for a retry, which runs those that are named again, or all.
    """
    section = slurm_section(request.config if isinstance(request, SweepRequest) else None, request.sbatch or ())
    if not request.dry_run:  # refused where there is no Slurm
        require_sbatch()
    again = (request.trial or ()) if isinstance(request, RetryRequest) else None
    folder, options = None, list[str]()
    if isinstance(request, GoOnRequest):
        sweep, folder = request.sweep, request.folder
        options += [] if folder is None else ["--folder", str(folder.expanduser().absolute())]
        options += ["--accept-changes"] if request.accept_changes else []
        options += [] if request.workers is None else ["--workers", str(request.workers)]
    else:
        sweep = store_final(request) if isinstance(request, LaunchRequest) else store_only(request)
    with open_store(request.db, existing=True) as store:
        row = _to_drive(store, sweep, folder, again)
        with store.read() as session:
            home = home_of(row, store.location, folder)
            plan = session.get_one(Plan, sweep_named(session, row.name).plan_id)
        job = _job(row, plan, home.folder, request.db, section, tuple(options))
        environment = os.environ | ({} if job.database is not None else {"RLPLAN_DB": request.db})
        with store.write() if again is not None else nullcontext() as session:  # what Slurm refuses changes nothing
            if again is not None and session is not None:
                set_up_again(session, row.name, again)
            script = write_job(job)
            verb = "resume" if again is None else "retry"
            number = None if request.dry_run else submit(script, environment, verb)
    return Submitted(row.name, plan.name, number, job.name, str(script), job.nodes, job.gpus_per_node, section.time)


def _to_drive(store: Store, sweep: str | None, folder: Path | None, again: Sequence[str] | None) -> Sweep:
    """Return the sweep that the job drives, the newest if none is named; refused while somebody else does."""
    if again is None:
        row = unended_sweep(store, sweep, folder)
    else:
        with store.read() as session:
            row = sweep_named(session, sweep)
    if has_driver(row) and not (again is None and is_ending(_name(row))):  # a job that goes on waits for the one before
        raise StoreError(
            f"{row.name} is being driven by process {row.driver_pid} on {row.driver_host}: stop that first, with "
            f"`rlplan stop {row.name}`. A driver that is silent for {GRACE.total_seconds():.0f} s is taken to be gone"
        )
    return row


def _name(row: Sweep) -> str:
    return f"rlplan-{row.name}-{token_of(row)[:4]}"


def slurm_section(file: Path | str | None, sbatch: Sequence[str]) -> SlurmSection:
    """Return what jobs ask for: [slurm] of the file, over which options of sbatch win that were given by hand."""
    section = load_configuration(file).config.slurm
    flags: dict[str, tuple[str, Any]] = {}
    others = list(section.sbatch)
    for option in sbatch:
        name, _, value = option.partition("=")
        if name in KEYS and value:
            number = value.isdecimal() and KEYS[name] in NUMBERS
            flags[f"slurm.{KEYS[name]}"] = (f"--sbatch={name}", int(value) if number else value)
        else:
            others.append(option)
    return load_configuration(file, None, flags | {"slurm.sbatch": ("--sbatch", others)}).config.slurm


def _job(row: Sweep, plan: Plan, folder: Path, database: str, section: SlurmSection, options: tuple[str, ...]) -> Job:
    place = locate(database)
    spec = SweepSpec.model_validate(row.config)
    gpus = round(spec.workers * spec.resources.gpus)
    per_node = min(gpus, int(plan.hardware.get("gpus_per_node", 8)))
    nodes = nodes_for(gpus, per_node, section)
    if spec.resources.gpus > nodes * per_node:
        raise InputError(
            f"each trial of {row.name} needs {spec.resources.gpus:g} GPUs, and {nodes} nodes of {per_node} have fewer: "
            "ask for more in [slurm] of rlplan.toml (nodes), or make a plan with fewer --gpus-per-trial"
        )
    here, program = Path(sys.executable).parent, shutil.which("rlplan")  # where rlplan and ray are
    return Job(
        name=_name(row),
        sweep=row.name,
        folder=folder,
        database=place if isinstance(place, Path) else None,
        directory=Path.cwd(),
        programs=here if (here / "rlplan").exists() or program is None else Path(program).parent,
        nodes=nodes,
        gpus_per_node=per_node,
        options=options,
        settings=section,
    )


def write_job(job: Job) -> Path:
    """Write a sweep's job into its folder; one that somebody has changed by hand is kept beside it."""
    script, text = job.folder / SCRIPT, text_of(job)
    if script.exists() and script.read_text(encoding="utf-8") != text:
        script.replace(script.with_name(f"{SCRIPT}.before"))
    (job.folder / "logs").mkdir(exist_ok=True)
    replace_file(script, text)
    return script
