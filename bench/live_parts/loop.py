"""One task's loops, through the command line: calibrate, propose, sweep, recommend, run in full; each only once."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from .grid import Grid

CALIBRATION = 0.06  # GPU-hours of the plan whose sweep measures how fast this machine is
ENDED = ("finished", "failed")
FAILED_TRIALS = 5  # the exit code of a sweep that ended, with failed trials
# What AllocBench's runs were validated with, and the pilots' share of the plan.
SETTINGS = """\
[validation]
every_rollouts = 2048
[pilot]
fraction = {fraction:.6f}
fewest_steps = 2
"""


@dataclass(frozen=True)
class Stored:
    """A sweep as its database has it."""

    name: str
    status: str


@dataclass(frozen=True)
class Observed:
    """What the recommended allocation scored in full: the mean over the last tenth of its run."""

    score: float
    steps: int


@dataclass(frozen=True)
class Loops:
    """The loops of one task, all in one folder with one database."""

    folder: Path
    task: str
    grid: Grid
    share: float  # of the grid's cost that the pilots may take
    workers: int
    after: "Loops | None" = None  # the first sweep of these is learnt from
    home: str | None = None  # what the database is named for, where that is not the task

    @property
    def database(self) -> Path:
        """Where its plans and sweeps are."""
        return self.folder / f"{self.home or self.task}.db"

    @property
    def stem(self) -> str:
        """What its files are named for."""
        return self.task if self.home is None else f"{self.home}-{self.task}"

    @classmethod
    def following(cls, folder: Path, task: str, source: str, shares: tuple[float, float], workers: int) -> "Loops":
        """Return loops that learn from a sweep of another task in their database; shares are theirs and its."""
        home = f"{task}-after-{source}"
        before = cls(folder, source, Grid.read(source), shares[1], workers, home=home)
        return cls(folder, task, Grid.read(task), shares[0], workers, after=before, home=home)

    def recommended(self, seed: int, plan: str) -> dict[str, Any]:
        """Return what a seed's sweep recommends; it is asked once, right after the sweep, and kept.

        The target is asked for at the speed that the machine had during this sweep, so that the final run is as long as
        the grid's runs although the machine may have been quicker or slower when the plan was made.
        """
        answer = self._file(seed, "recommendation.json")
        if not answer.exists():
            sweep = self.swept(seed, plan)
            target = self.grid.slowness(self.database, sweep) * self.grid.target
            place = ["--db", str(self.database), "--format", "json"]
            said = json.loads(rlplan("recommend", sweep, "--target", repr(target), *place))
            said["trained_share"] = self.grid.trained(self.database, sweep) / self.grid.cost
            _write(answer, json.dumps(said))
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return found

    def plan(self) -> str:
        """Return the plan that all seeds run: a share of the grid's cost for pilots, and its target for the final."""
        known = self.folder / f"{self.stem}-plan.json"
        if not known.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            slowness = self.grid.slowness(self.database, self._calibrated())
            pilots, final = (slowness * hours for hours in (self.share * self.grid.cost, self.grid.target))
            settings = self.folder / f"{self.stem}.toml"
            settings.write_text(SETTINGS.format(fraction=pilots / (pilots + final)), encoding="utf-8")
            flags = ("--task", self.task, "--budget", repr(pilots + final), "--config", str(settings))
            made = json.loads(rlplan("propose", *flags, "--db", str(self.database), "--format", "json"))
            name = f"plan-{made['plan']}" if isinstance(made["plan"], int) else made["plan"]
            _write(known, json.dumps({"plan": name, "slowness": slowness, "pilots": pilots, "final": final}))
        say(f"{self.stem}: {known.read_text(encoding='utf-8')}")
        return str(json.loads(known.read_text(encoding="utf-8"))["plan"])

    def observed(self, seed: int, recommended: dict[str, Any]) -> Observed:
        """Run what is recommended in full, where that has not been done, and return what came of it."""
        launch, steps = recommended["launch"], int(recommended["recommendation"]["update_steps"])
        if launch["arguments"] is None and launch["continues"] is not None:  # its pilot has gone all the way
            return self._of_pilot(launch["continues"]["folder"], steps)
        chosen = recommended["recommendation"]
        size = ["-n", str(chosen["rollouts_per_prompt"]), "-B", str(chosen["prompts_per_batch"])]
        further = ["--learning-rate", repr(chosen["learning_rate"]), "--seed", str(seed)]
        settings = ["--task", self.task, *size, *further, "--config", str(self.folder / f"{self.stem}.toml")]
        points = trained(settings, self._file(seed, "final.db"), steps)
        return _ended([(step, score) for step, _, score in points], steps)

    def swept(self, seed: int, plan: str) -> str:
        """Return the name of a seed's sweep, gone through where it has not been."""
        common = ["--workers", str(self.workers), "--db", str(self.database), "--format", "json"]
        stored = self._stored(plan, seed, "rlplan")
        if stored is None:
            learnt = "none" if self.after is None else self.after.swept(0, self.after.plan())
            asked = ["--seed", str(seed), "--learn-from", learnt]
            rlplan("sweep", plan, *asked, "--folder", str(self.folder / "runs"), *common)
            stored = self._stored(plan, seed, "rlplan")
        elif stored.status not in ENDED:
            rlplan("resume", stored.name, "--accept-changes", *common)
        assert stored is not None
        return stored.name

    def _calibrated(self) -> str:
        """Return the small sweep of every planned pilot whose prices and speed count, made if need be."""
        of_task = "sweeps.policy = 'full' AND json_extract(plans.config, '$.workload.task') = ?"
        found = self._newest(f"{of_task} AND sweeps.status IN ('finished', 'failed')", (self.task,))
        if found is None:
            place = ["--folder", str(self.folder / "runs"), "--db", str(self.database), "--format", "json"]
            small = ["--task", self.task, "--budget", str(CALIBRATION), "--policy", "full"]
            rlplan("sweep", *small, "--workers", str(self.workers), *place)
            found = self._newest(of_task, (self.task,))
        assert found is not None
        return found.name

    def _stored(self, plan: str, seed: int, policy: str) -> Stored | None:
        return self._newest("plans.name = ? AND sweeps.seed = ? AND sweeps.policy = ?", (plan, seed, policy))

    def _newest(self, where: str, values: tuple[object, ...]) -> Stored | None:
        if not self.database.is_file():
            return None
        wanted = (
            f"SELECT sweeps.name, sweeps.status FROM sweeps JOIN plans ON plans.id = sweeps.plan_id WHERE {where} "
            "ORDER BY sweeps.id DESC"
        )
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            row = connection.execute(wanted, values).fetchone()
        return None if row is None else Stored(*row)

    def _of_pilot(self, folder: str, steps: int) -> Observed:
        wanted = """
            SELECT optimizer_step, score, max(points.attempt) FROM points JOIN trials ON trials.id = points.trial_id
            JOIN sweeps ON sweeps.id = trials.sweep_id
            WHERE sweeps.name || '/' || trials.name = ? AND score IS NOT NULL AND optimizer_step <= ?
            GROUP BY optimizer_step ORDER BY optimizer_step
        """
        named = "/".join(Path(folder).parts[-2:])
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            return _ended([row[:2] for row in connection.execute(wanted, (named, steps)).fetchall()], steps)

    def _file(self, seed: int, name: str) -> Path:
        return self.folder / f"{self.stem}-s{seed}-{name}"


def rlplan(*arguments: str) -> str:
    """Run a command, and return what it printed."""
    say(f"rlplan {' '.join(arguments)}")
    command = [sys.executable, "-c", "from rlplan.entry import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode not in (0, FAILED_TRIALS):
        raise SystemExit(f"rlplan {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def trained(settings: Sequence[str], database: Path, steps: int) -> list[tuple[int, float, float]]:
    """Train a run of so many updates from the base model in a database of its own, on where it was left.

    Returns update, GPU-hours and score of its validations.
    """
    place = ["--db", str(database), "--format", "json"]
    if not database.is_file():
        rlplan("train", *settings, "--steps", str(steps), *place)
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        if connection.execute("SELECT status FROM sweeps").fetchone()[0] not in ENDED:
            rlplan("resume", *place)
        wanted = "SELECT optimizer_step, gpu_hours, score FROM points WHERE score IS NOT NULL ORDER BY optimizer_step"
        return connection.execute(wanted).fetchall()


def _ended(points: list[tuple[float, float]], steps: int) -> Observed:
    """Return the mean over the last tenth of a run's validations, as the truth of the grid is a local mean."""
    last = points[-1][0]
    near = [score for step, score in points if step >= 0.9 * last]
    return Observed(sum(near) / len(near), min(steps, int(last)))


def _write(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    aside = path.with_name(f"{path.name}.writing")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)


def say(line: str) -> None:
    """Say on stderr what goes on."""
    print(f"{datetime.now():%H:%M:%S} {line}", file=sys.stderr, flush=True)
