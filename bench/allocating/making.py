"""Makes the runs of AllocBench through the command line, over as many sittings as it takes."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.allocating.own_tasks import OWN_TASKS, OwnFiles, make_own_task
from budgets.errors import InputError

# GPU-hours of a plan for the whole grid. A run is as long as the final run would be, a hundredth of it; the rest is
# three times what all runs need, so that none is cut short where other work makes updates slower than was priced.
BUDGET = 2.6
CALIBRATION = 0.06  # GPU-hours of the plan whose sweep measures what updates cost here
LEAST_CALIBRATION = 0.03  # less buys no comparison of the task with the longest answers
CELLS, SUBGRID_CELLS = 30, 10
SETTINGS = """\
[validation]
problems = 128
samples = 4
every_rollouts = {every}
[pilot]
cells = "all"
fraction = 0.989
fewest_steps = 2
"""
# n from 4 to 64 at B of 8 and 16: ten cells of the grid.
SUBGRID = """\
[grid]
fewest_rollouts_per_prompt = 4
most_rollouts_per_prompt = 64
fewest_prompts_per_batch = 8
most_prompts_per_batch = 16
fewest_rollouts_per_step = 32
most_rollouts_per_step = 1024
"""
VALIDATE_EVERY = 2048  # rollouts, in runs of the full length
LEAST_VALIDATE_EVERY = 512  # a validation is 512 answers itself
ENDED = ("finished", "failed")
_FAILED_TRIALS = 5  # the exit code of a sweep that ended, with failed trials


@dataclass(frozen=True)
class Part:
    """One database: a task with its own recipe on the whole grid, or with another one on the sub-grid."""

    folder: Path
    task: str
    recipe: str | None = None
    scale: float = 1.0  # of the length of its runs, and of the rollouts between two validations

    @property
    def name(self) -> str:
        """Names its files: `easy`, `hard-scalerl`."""
        short = self.task.removeprefix("sum-")
        return short if self.recipe is None else f"{short}-{self.recipe}"

    @property
    def own(self) -> OwnFiles | None:
        """The files of a task that does not come with rlplan."""
        return OwnFiles(self.folder / f"{self.task}-task", self.task) if self.task in OWN_TASKS else None

    @property
    def task_flags(self) -> list[str]:
        """What names an embedded task to whoever proposes; for one's own the configuration file says it all."""
        return ["--task", self.task] if self.own is None else []

    @property
    def training_flags(self) -> list[str]:
        """What a sweep of a stored plan has to be told beside."""
        return [] if self.own is None else self.own.flags

    @property
    def database(self) -> Path:
        """Where its sweeps are."""
        return self.folder / f"{self.name}.db"

    @property
    def budget(self) -> float:
        """GPU-hours of its plan: each run gets the same on either grid."""
        return round(self.scale * BUDGET * (1 if self.recipe is None else SUBGRID_CELLS / CELLS), 4)

    @property
    def calibration(self) -> float:
        """GPU-hours of the small sweep."""
        return max(LEAST_CALIBRATION, round(self.scale * CALIBRATION, 4))

    @property
    def settings(self) -> str:
        """What its configuration file says."""
        own = SETTINGS.format(every=max(LEAST_VALIDATE_EVERY, round(self.scale * VALIDATE_EVERY)))
        if self.own is not None:
            if self.recipe is not None:
                raise InputError(f"'{self.task}' is made with its own recipe alone: leave --recipes out")
            return own + self.own.settings
        return own if self.recipe is None else f'{own}{SUBGRID}[recipe]\nname = "{self.recipe}"\n'

    @property
    def calibrating_settings(self) -> str:
        """The same for the small sweep, which leaves its final run more than a hundredth: that would be no update."""
        return self.settings.replace("fraction = 0.989", "fraction = 0.9")


@dataclass(frozen=True)
class Standing:
    """What a database already has: the newest plan of the budget, and the sweep of a seed with its status."""

    plan: str | None = None
    sweep: str | None = None
    status: str | None = None
    shortened: int = 0  # runs for which the GPU-hours ran out, because updates took longer than they were priced


def standing(part: Part, seed: int, budget: float | None = None) -> Standing:
    """Look without changing anything."""
    if not part.database.is_file():
        return Standing()
    with closing(sqlite3.connect(f"file:{part.database}?mode=ro", uri=True)) as connection:
        wanted = part.budget if budget is None else budget
        plans = "SELECT id, name FROM plans WHERE abs(budget_gpu_hours - ?) < 1e-6 ORDER BY id DESC"
        plan = connection.execute(plans, (wanted,)).fetchone()
        if plan is None:
            return Standing()
        sweeps = """
            SELECT name, status, (SELECT count(*) FROM trials WHERE sweep_id = sweeps.id AND state = 'paused')
            FROM sweeps WHERE plan_id = ? AND policy = 'full' AND seed = ? ORDER BY id DESC
        """
        return Standing(plan[1], *(connection.execute(sweeps, (plan[0], seed)).fetchone() or (None, None, 0)))


@dataclass(frozen=True)
class How:
    """How sweeps are run."""

    workers: int
    accept_changes: bool = False  # resume although the code has changed since
    again: bool = False  # a seed with shortened runs gets another sweep


def next_arguments(part: Part, seed: int, now: Standing, how: How) -> list[str] | None:
    """Return what to run for a seed: nothing when its sweep has ended, else resume it or start it."""
    common = ["--workers", str(how.workers), "--db", str(part.database), "--format", "json"]
    ended = now.status in ENDED
    if ended and not (how.again and now.shortened):
        return None
    if now.sweep is not None and not ended:
        return ["resume", now.sweep, *(["--accept-changes"] if how.accept_changes else []), *common]
    if now.plan is None:
        raise InputError(f"{part.database} has no plan of {part.budget} GPU-hours: `make` proposes one first")
    chosen = ["sweep", now.plan, "--policy", "full", "--seed", str(seed), "--folder", _runs(part)]
    return [*chosen, *part.training_flags, *common]


def make(parts: list[Part], seeds: list[int], how: How) -> int:
    """Make every seed of every part that is not there yet, seed by seed; return the first bad exit code, else 0."""
    for part in parts:
        if (code := _prepare(part, how.workers)) != 0:
            return code
    for seed in seeds:
        for part in parts:
            now = standing(part, seed)
            arguments = next_arguments(part, seed, now, how)
            if arguments is None:
                short = f", {now.shortened} runs shorter than planned: the GPU-hours ran out" if now.shortened else ""
                _say(f"{part.name} seed {seed}: there already{short}")
                continue
            code = _run(part, f"s{seed}", arguments)
            if code not in (0, _FAILED_TRIALS):
                return code
    return 0


def _prepare(part: Part, workers: int) -> int:
    """Calibrate the prices with a small sweep, then store the plan, where that has not been done."""
    part.folder.mkdir(parents=True, exist_ok=True)
    if part.own is not None:
        make_own_task(part.own)
    if standing(part, 0).plan is not None:
        return 0
    if standing(part, 0, part.calibration).status not in ENDED:
        small = ["--budget", str(part.calibration), "--policy", "full", "--workers", str(workers), *part.training_flags]
        place = _place(part, "calibration", part.calibrating_settings)
        if (
            code := _run(part, "calibration", ["sweep", *part.task_flags, *small, "--folder", _runs(part), *place])
        ) != 0:
            return code
    place = _place(part, "plan", part.settings)
    return _run(part, "plan", ["propose", *part.task_flags, "--budget", str(part.budget), *place])


def _place(part: Part, what: str, settings: str) -> list[str]:
    """Write a configuration file, and return the flags that name it and the database."""
    file = part.folder / f"allocbench-{part.name}-{what}.toml"
    file.write_text(settings, encoding="utf-8")
    return ["--config", str(file), "--db", str(part.database), "--format", "json"]


def _runs(part: Part) -> str:
    return str(part.folder / f"runs-{part.name}")


def _run(part: Part, what: str, arguments: list[str]) -> int:
    """Run rlplan, its output into files of the folder."""
    _say(f"{part.name} {what}: rlplan {' '.join(arguments)}")
    output, log = (part.folder / f"{part.name}-{what}.{ending}" for ending in ("json", "log"))
    with output.open("w") as out, log.open("a") as err:
        command = [sys.executable, "-c", "from rlplan.entry import main; main()", *arguments]
        code = subprocess.run(command, stdout=out, stderr=err, check=False, env=dict(os.environ)).returncode
    _say(f"{part.name} {what}: exit code {code}" + ("" if code == 0 else f", see {log}"))
    return code


def _say(line: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {line}", file=sys.stderr, flush=True)
