"""What a stop costs of what was trained: stand-ins for the trainers, each stopped in every way.

`make bench-stops` (or `python bench/stops.py --trainers verl --events Ctrl-C` for a part) runs 35 short sweeps, of one
worker each, and ends each by an event at a random moment:

- price × 0.5: its updates take twice what the plan has, so that reservations are used up; after 20 seconds Ctrl-C.
- Ctrl-C and `rlplan stop`.
- USR1: as a Slurm job before its end, SIGTERM to the driver and SIGKILL after a margin of 20 seconds.
- driver SIGKILL: nobody asks for a save; the workers end by themselves, and a resume would charge for them.

It prints a row for each trainer and event: the updates that were trained and lost, those among the lost ones that were
older than the save cadence (the bar: none), and what was charged beside what the workers lived.
"""

import argparse
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import start
from rlplan.requests.run import SweepRequest
from runner.ports.trial import Costs, SimulationChoice, TrialConfig
from runner.processes import SWEEP_TAG, sweep_tag, tagged
from runner.sweep.worker_records import worker_records
from runner.trainers.catalogue import driver_of
from runner.trainers.driver import Attempt

STOPS_ON = {  # how each is asked to save, as its driver says
    "verl": "file",
    "openrlhf": "file",
    "skyrl": "file",
    "nemo-rl": "file",
    "slime": "file",
    "prime-rl": "nothing",
    "command": "signal",
}
EVENTS = ("price × 0.5", "Ctrl-C", "rlplan stop", "USR1", "driver SIGKILL")
COMMAND = {
    "here": "/",
    "command": "x {rollouts_per_prompt} {prompts_per_batch} {learning_rate} {to_step}",
    "resume": "",
}
SAVE_SECONDS = 3.0
STOP_SECONDS = 6.0  # twice the cadence: the next save comes within
SLOW_SECONDS = 20.0  # of a sweep whose updates take twice their price, before it is stopped by Ctrl-C
MARGIN = 20.0  # seconds from Slurm's USR1 to its end
LONGEST = 240.0
COSTS = Costs(  # what the plan takes an update of sum-easy to cost here
    seconds_per_update=0.0217, seconds_per_rollout=0.00141, seconds_per_answer=0.00015, start_up_seconds=1.0, spread=0.0
)
FLAGS = {
    "pilot.fraction": ("", 0.98),
    "pilot.most_pilots": ("", 2),
    "pilot.fewest_steps": ("", 800),
    "grid.most_rollouts_per_step": ("", 128),
    "validation.every_steps": ("", 200),
}


@dataclass
class Found:
    """What is left of a sweep."""

    trained: int = 0
    lost: int = 0
    older: int = 0  # of the lost ones, than the cadence
    charged: float = 0.0
    lived: float = 0.0


def drive(database: Path, budget: float, slower: float) -> int:
    """Run a sweep by the trainer's file beside the database, whose updates take so many times their price."""
    names = ("seconds_per_update", "seconds_per_rollout")
    costs = COSTS.model_copy(update={name: slower * getattr(COSTS, name) for name in names})
    asked = SweepRequest(
        task="sum-easy",
        budget=budget,
        further=FLAGS,
        policy="full",
        search=None,
        workers=1,
        folder=database.parent / "sweeps",
        trainer=str(database.parent / "trainer.toml"),
        simulation=SimulationChoice(costs=costs).model_dump(mode="json"),
        db=str(database),
    )
    with Interrupts() as interrupts:

        def began(_: str) -> None:
            interrupts.patient = True

        return 130 if start(asked, interrupts=interrupts, began=began).interrupted else 0


def described(folder: Path, trainer: str) -> None:
    """Write the trainer's file."""
    lines = ['name = "standin"', f"save_seconds = {SAVE_SECONDS}", "[patience]", f"stop_seconds = {STOP_SECONDS}"]
    lines += ["[options]", "gated = false", f'stops_on = "{STOPS_ON[trainer]}"']
    lines += ['driver = "tests.trainer_forms.driver:FormDriver"', "[options.options]", f'trainer = "{trainer}"']
    if trainer == "command":
        lines += ["[options.options.options]", *(f"{name} = {json.dumps(value)}" for name, value in COMMAND.items())]
    (folder / "trainer.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(trainer: str, event: str, budget: float, chance: random.Random) -> Found:
    """Run one sweep to an event and to its end, and count."""
    with tempfile.TemporaryDirectory(prefix="rlplan-stops-") as place:
        folder = Path(place)
        described(folder, trainer)
        slower = 2.0 if event == EVENTS[0] else 1.0
        command = [sys.executable, __file__, "--drive", str(folder / "db"), str(budget), str(slower)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(lambda: trials(folder), process, folder)
            time.sleep(SLOW_SECONDS if event == EVENTS[0] else chance.uniform(2.0, 2.0 + 2 * SAVE_SECONDS))
            strike(event, process, folder / "db")
            process.wait(LONGEST)
        finally:
            process.kill()
        tag = f"{SWEEP_TAG}={sweep_tag(str(next((folder / 'sweeps').glob('sweep-*'))))}"
        until(lambda: not tagged({tag}), None, folder)
        return counted(folder)


def strike(event: str, process: "subprocess.Popen[bytes]", database: Path) -> None:
    """Do to the driver what the event is."""
    if event == "rlplan stop":
        program = Path(sys.executable).with_name("rlplan")
        subprocess.run([program, "stop", "--db", str(database)], check=True, capture_output=True)
        return
    process.send_signal({"driver SIGKILL": signal.SIGKILL, "USR1": signal.SIGTERM}.get(event, signal.SIGINT))
    if event == "USR1":  # as Slurm's job does
        try:
            process.wait(MARGIN)
        except subprocess.TimeoutExpired:
            process.kill()


def trials(folder: Path) -> list[Path]:
    """Return the folders of trials whose trainer has said something."""
    return [path.parent for path in folder.glob("sweeps/*/*/metrics.jsonl") if len(path.read_text().splitlines()) > 2]


def counted(folder: Path) -> Found:
    """Count the updates of each start of a trainer that nobody went on from."""
    found = Found()
    for trial in folder.glob("sweeps/*/*/trainer"):
        starts = sorted(trial.glob("standin-*.json"), key=lambda path: int(path.stem.split("-")[1]))
        begun = [json.loads(path.read_text(encoding="utf-8")) for path in starts]
        config = TrialConfig.model_validate(begun[0]["config"])
        saved = driver_of(config).checkpoints(config, trial)
        ends = [each["from_step"] for each in begun[1:]] + [saved[0].step if saved else 0]
        for number, (one, kept) in enumerate(zip(begun, ends, strict=True), start=1):
            said = steps_of(config, trial, number)
            newest = max(said, default=one["from_step"])
            lost = [step for step in said if step > kept]
            found.trained += max(0, newest - one["from_step"])
            found.lost += len(lost)
            found.older += sum(said[newest] - said[step] > SAVE_SECONDS for step in lost)
    with closing(sqlite3.connect(folder / "db")) as connection:
        (segments,) = connection.execute("SELECT sum(charged_gpu_hours) FROM segments").fetchone()
        (idle,) = connection.execute("SELECT sum(gpu_hours) FROM charges").fetchone()
    found.charged = (segments or 0.0) + (idle or 0.0)
    (own,) = folder.glob("sweeps/sweep-*")
    found.lived = sum(each.gpu_hours for each in worker_records(own).values())
    return found


def steps_of(config: TrialConfig, trial: Path, number: int) -> dict[int, float]:
    """Return when a start of the stand-in had done each update, by its own clock."""
    readings = [
        reading
        for source in driver_of(config).sources(config, Attempt(trial, number, 0, 0, None))
        for reading in source.read()
    ]
    if any(each.at_seconds is not None for each in readings):
        return {each.step: each.at_seconds for each in readings if each.at_seconds is not None and each.step}
    rows: list[Any] = json.loads((trial / f"standin-{number}.json").read_text(encoding="utf-8"))["rows"]
    return {each.step: rows[each.step][0] for each in readings if each.step}  # verl's log has no clock


def until(condition: Callable[[], object], process: "subprocess.Popen[bytes] | None", folder: Path) -> None:
    """Wait for something, as long as the driver lives."""
    end = time.monotonic() + LONGEST
    while not condition():
        if time.monotonic() > end or (process is not None and process.poll() is not None):
            sys.exit((folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:])
        time.sleep(0.1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainers", nargs="+", default=list(STOPS_ON), choices=list(STOPS_ON))
    parser.add_argument("--events", nargs="+", default=list(EVENTS), choices=EVENTS)
    parser.add_argument("--times", type=int, default=1, help="of each, at other random moments")
    parser.add_argument("--budget", type=float, default=0.2, help="GPU-hours of a sweep")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        sys.exit(drive(Path(given.drive[0]), float(given.drive[1]), float(given.drive[2])))
    chance, older = random.Random(given.seed), 0
    print(f"saves every {SAVE_SECONDS:g} s, stop_seconds = {STOP_SECONDS:g}; charged and lived in seconds of a worker")
    print("| trainer | event | updates trained | lost | of them older than a save | charged | lived |")
    print("|---|---|---|---|---|---|---|")
    for trainer in given.trainers:
        for event in given.events:
            for _ in range(given.times):
                found = measure(trainer, event, given.budget, chance)
                older += found.older
                charged = "at resume" if event == EVENTS[-1] else f"{3600 * found.charged:.1f}"
                print(
                    f"| {trainer} | {event} | {found.trained} | {found.lost} | {found.older} | {charged} | "
                    f"{3600 * found.lived:.1f} |",
                    flush=True,
                )
    print(f"bar: no update that is older than the cadence is lost: {'met' if older == 0 else 'missed'}")


if __name__ == "__main__":
    main()
