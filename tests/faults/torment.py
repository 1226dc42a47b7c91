"""Kills a sweep at random moments, has it resumed each time, and compares what it leaves with an undisturbed run."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import psutil

from planner.store import open_store
from planner.store.schema import Sweep
from runner.processes import SWEEP_TAG, sweep_tag, tagged
from runner.sweep.spec import SweepSpec
from runner.sweep.worker_records import worker_records

ROOT = Path(__file__).parents[2]
LONGEST_PAUSE = 5.0  # seconds from when a worker trains to the kill
PATIENCE = 120.0


@dataclass
class Tormented:
    """A sweep, and what was done to it."""

    folder: Path
    address: str | None = None  # of a Ray cluster
    within: tuple[str, ...] = ()  # the command that runs the driver's
    storage: str | None = None  # URL of the trials' copies
    kills: Counter[str] = field(default_factory=Counter)
    seconds_to_vanish: list[float] = field(default_factory=list)
    drivers: int = 0

    @property
    def database(self) -> Path:
        return self.folder / "rlplan.db"

    def spec(self) -> SweepSpec:
        with open_store(self.database, read_only=True) as store, store.read() as session:
            return SweepSpec.model_validate(session.query(Sweep).one().config)

    def processes(self) -> list[psutil.Process]:
        """All that the sweep has started and that still lives."""
        wanted = {f"{SWEEP_TAG}={sweep_tag(self.spec().folder)}"}
        found = []
        for pid in tagged(wanted):
            with suppress(psutil.NoSuchProcess):  # it has ended since
                found.append(psutil.Process(pid))
        return found

    def drive(self) -> subprocess.Popen[bytes]:
        what = "resume" if self.sweeps() else "start"
        self.drivers += 1
        command = [*self.within, sys.executable, "-m", "tests.faults.sweeper", what, str(self.database)]
        command += [self.address or "", self.storage] if self.storage else [self.address] if self.address else []
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(query).fetchall()

    def found(self, query: str) -> list[Any]:
        """Return rows of a database that may not be there yet, or is being made."""
        try:
            return self.rows(query) if self.database.exists() else []
        except sqlite3.OperationalError:
            return []

    def sweeps(self) -> int:
        """Return how many are stored."""
        return len(self.found("SELECT id FROM sweeps"))

    def trains(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until a worker of this driver trains; False when the driver has ended before."""
        known = set(self.found("SELECT id FROM segments"))
        while process.poll() is None:
            if set(self.found("SELECT id FROM segments WHERE outcome = 'reserved' AND worker IS NOT NULL")) - known:
                return True
            time.sleep(0.1)
        return False


def undisturbed(folder: Path) -> dict[str, Any]:
    """Run a sweep that nobody disturbs, and return what it leaves."""
    calm = Tormented(folder)
    code = calm.drive().wait(PATIENCE * 2)
    assert code == 0, (folder / "driver.log").read_text()
    return essence(calm)


def torment(folder: Path, kills: int, seed: int) -> list[Tormented]:
    """Kill so many times, over as many sweeps as that takes, and let the last one come to its end."""
    chance = random.Random(seed)
    done: list[Tormented] = []
    numbers = count(1)
    left = kills
    while left > 0:
        sweep = Tormented(folder / f"tormented-{next(numbers)}")
        sweep.folder.mkdir()
        done.append(sweep)
        left -= _torment(sweep, left, chance)
    return done


def kill_starts(folder: Path, kills: int, seed: int) -> Tormented:
    """Kill so many drivers of one sweep while Ray starts, each at a random moment, and let another come to its end."""
    sweep, chance = Tormented(folder), random.Random(seed)
    began = time.monotonic()
    process = sweep.drive()
    assert sweep.trains(process), (folder / "driver.log").read_text()
    longest = time.monotonic() - began
    process = _kill_driver(sweep, process, signal.SIGKILL, "driver")
    for _ in range(kills):
        time.sleep(chance.uniform(0, 1.5 * longest))  # some workers have begun
        process = _kill_driver(sweep, process, signal.SIGKILL, "driver, as Ray starts")
    assert process.wait(PATIENCE * 5) == 0, (folder / "driver.log").read_text()[-3000:]
    return sweep


def _torment(sweep: Tormented, most: int, chance: random.Random) -> int:
    process = sweep.drive()
    while True:
        if sum(sweep.kills.values()) < most and sweep.trains(process):
            time.sleep(chance.uniform(0, LONGEST_PAUSE))
            process = _strike(sweep, process, chance)
            continue
        code = process.wait(PATIENCE * 5)
        if code == 130:
            process = sweep.drive()
            continue
        said = (sweep.folder / "driver.log").read_text()[-3000:]
        # The driver before may have been killed between its last word and its exit.
        assert code == 0 or "has ended (finished): nothing is left to do" in said, said
        return sum(sweep.kills.values())


def _strike(sweep: Tormented, process: subprocess.Popen[bytes], chance: random.Random) -> subprocess.Popen[bytes]:
    """Kill something; what is left of the driver is waited for, and another one takes over."""
    victim = chance.choice(["driver", "driver", "driver, asked", "worker", "worker", "ray", "raylet", "gcs_server"])
    if process.poll() is not None:
        return process
    if victim.startswith("driver"):
        return _kill_driver(sweep, process, signal.SIGKILL if victim == "driver" else signal.SIGTERM, victim)
    matching: dict[str, Callable[[psutil.Process], bool]] = {
        "worker": lambda one: one.name().startswith("ray::TrialOnWorker"),
        "ray": lambda one: "runner.sweep.tune.child" in one.cmdline(),
        "raylet": lambda one: one.name() == "raylet",
        "gcs_server": lambda one: one.name() == "gcs_server",
    }
    alive = [one for one in sweep.processes() if _is(one, matching[victim])]
    if alive:
        os.kill(chance.choice(alive).pid, signal.SIGKILL)
        sweep.kills[victim] += 1
    return process


def _kill_driver(
    sweep: Tormented, process: subprocess.Popen[bytes], number: signal.Signals, victim: str
) -> subprocess.Popen[bytes]:
    process.send_signal(number)
    sweep.kills[victim] += 1
    process.wait(PATIENCE)
    began = time.monotonic()
    _wait(lambda: not sweep.processes(), "what the driver started has not ended")
    sweep.seconds_to_vanish.append(time.monotonic() - began)
    return sweep.drive()


def _is(process: psutil.Process, test: Callable[[psutil.Process], bool]) -> bool:
    try:
        return test(process)
    except psutil.Error:
        return False


def _wait(condition: Callable[[], bool], failure: str) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < PATIENCE, failure
        time.sleep(0.1)


def essence(sweep: Tormented) -> dict[str, Any]:
    """Return what no kill may change: trials with their states, scores by step, and stretches that are committed.

    A driver that is asked to stop saves in the middle of a segment, which then is two: stretches that follow each
    other count as one.
    """
    found: dict[str, Any] = {}
    for trial, name, state in sweep.rows("SELECT id, name, state FROM trials"):
        scores = sweep.rows(
            f"SELECT optimizer_step, score FROM points AS p WHERE trial_id = {trial} AND score NOT NULL AND attempt = "
            "(SELECT max(attempt) FROM points WHERE trial_id = p.trial_id AND optimizer_step = p.optimizer_step) "
            "ORDER BY optimizer_step"
        )
        committed = sweep.rows(
            f"SELECT from_step, to_step FROM segments WHERE trial_id = {trial} AND outcome = 'committed' ORDER BY id"
        )
        assert all(before[1] == after[0] for before, after in pairwise(committed)), f"{name}: {committed}"
        found[name] = (state, scores, (committed[0][0], committed[-1][1]))
    return found


def uncharged_seconds(sweep: Tormented) -> dict[str, float]:
    """Return by worker how many seconds of its life, by its own word, were charged to nothing."""
    charged: Counter[str] = Counter()
    for table, column in (("segments", "charged_gpu_hours"), ("charges", "gpu_hours")):
        for worker, hours in sweep.rows(
            f"SELECT worker, sum({column}) FROM {table} WHERE worker NOT NULL GROUP BY worker"
        ):
            charged[worker] += hours
    found = worker_records(Path(sweep.spec().folder))
    return {name: 3600 * (life.gpu_hours - charged[name]) for name, life in found.items()}


def charged_seconds(sweep: Tormented) -> float:
    """Return how many seconds of workers were charged, to segments or to nothing."""
    charges = "SELECT sum(charged_gpu_hours) FROM segments UNION ALL SELECT sum(gpu_hours) FROM charges"
    return 3600 * sum(row[0] or 0 for row in sweep.rows(charges))


def used_seconds(sweep: Tormented) -> float:
    """Return how long all workers lived, by their own word."""
    return 3600 * sum(life.gpu_hours for life in worker_records(Path(sweep.spec().folder)).values())


def check(sweep: Tormented, calm: dict[str, Any]) -> None:
    """Hold a sweep that has ended against the undisturbed one."""
    assert essence(sweep) == calm
    keys = sweep.rows(
        "SELECT count(*), count(DISTINCT trial_id || '-' || optimizer_step || '-' || attempt) FROM points"
    )
    assert keys[0][0] == keys[0][1]
    assert sweep.rows("SELECT count(*) FROM segments WHERE outcome = 'reserved'") == [(0,)]
    assert charged_seconds(sweep) <= 3600 * sweep.spec().pilot_gpu_hours
    late = {name: seconds for name, seconds in uncharged_seconds(sweep).items() if seconds > 0.001}
    assert not late, late
    assert not sweep.processes()


def table(sweeps: list[Tormented]) -> str:
    """Return what was done and what it cost, as lines."""
    kills: Counter[str] = sum((sweep.kills for sweep in sweeps), Counter())
    query = "SELECT count(*), sum(charged_gpu_hours) FROM segments WHERE outcome = 'lost'"
    lost = [row for sweep in sweeps for row in sweep.rows(query)]
    seconds = sum(row[1] or 0 for row in lost) * 3600
    vanish = [seconds for sweep in sweeps for seconds in sweep.seconds_to_vanish]
    mean = sum(vanish) / max(1, len(vanish))
    drivers = sum(sweep.drivers for sweep in sweeps)
    charged, used = sum(map(charged_seconds, sweeps)), sum(map(used_seconds, sweeps))
    lines = [f"{victim:22} {number:3} kills" for victim, number in sorted(kills.items())]
    lines += [
        f"{sum(kills.values())} kills over {len(sweeps)} sweeps, {drivers} drivers",
        f"segments lost and done again: {sum(row[0] for row in lost)}, {seconds:.0f} worker-seconds",
        f"charged {charged:.2f} worker-seconds; {used:.2f} lived, by the workers' own records",
        f"processes of a dead driver gone after {max(vanish, default=0):.1f} s at most, {mean:.1f} s on average",
        "trials, scores and committed segments as in the undisturbed run; nothing twice, nothing uncharged, no orphan",
    ]
    return "\n".join(lines)
