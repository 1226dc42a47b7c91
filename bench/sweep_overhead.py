"""How much of two workers' time a local sweep spends on training and evaluation: ours and plain Ray Tune with ASHA.

    python bench/sweep_overhead.py [--rounds 3] [--budget 0.6]

Both train the same trials of sum-easy, the same allocations, seeds, recipe and validations, on two workers of this
machine with Ray. Ours is a sweep as anyone would run it, with its own policy, database, ledger and fits; with
--policy full every trial gets its whole pilot, and the longest one's end leaves the other worker idle. Ray Tune
runs its own ASHA over the same trainer, with as many validations as the pilot has, and keeps nothing of its curves but
the last score. Measured from when a worker takes the first segment (trial) to when the last one ends: the seconds
inside generation, rewards, updates, weight exchange and validation, over the workers' seconds; the import of torch and
the rest of it count as waste, the start of Ray and of the processes before that does not. They take turns.

    python bench/sweep_overhead.py --trainers builtin trl "trl without gate" [--trl-python .venv-trl/bin/python]

trains one trial a segment at a time instead, by other trainers: the time from a segment's grant to its first update,
and the share of what was allocated that is inside updates, validations and saves.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from sweep_overhead_segments import WAYS, measure

HERE = Path(__file__).parent
BAR = 0.90
BUSY = ("generate", "reward", "reference", "train", "sync", "evaluate")
WORKERS = 2


def main() -> None:
    """Run both in turn and print the table."""
    given = arguments()
    if given.trainers:
        os.environ["OMP_NUM_THREADS"] = "1"
        measure(given.trainers, given.trl_python, given.segments, given.updates)
        return
    ours, theirs = [], []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            ours.append(sweep(Path(folder), given))
            theirs.append(tune(Path(folder)))
    print(f"sum-easy, budget {given.budget:g} worker-hours, {WORKERS} workers, {given.rounds} rounds; shares of time")
    show(f"rlplan sweep --policy {given.policy}", ours)
    show("Ray Tune + ASHA", theirs)
    share = statistics.median(each["busy"] for each in ours)
    verdict = "met" if share >= BAR else f"missed by {BAR - share:.1%}"
    print(f"bar: {BAR:.0%} inside training or evaluation: {verdict}")


def sweep(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Run our sweep from the command line, and read from its database where the time went."""
    database = folder / "rlplan.db"
    settings = ["--budget", str(given.budget), "--policy", given.policy, "--workers", str(WORKERS)]
    command = ["sweep", "--task", "sum-easy", *settings]
    run([str(Path(sys.executable).with_name("rlplan")), *command, "--db", str(database), "--format", "json"])
    with sqlite3.connect(database) as connection:
        segments = connection.execute("SELECT started_at, ended_at, charged_gpu_hours FROM segments").fetchall()
        metrics = [
            json.loads(row[0]) for row in connection.execute("SELECT metrics FROM points WHERE metrics IS NOT NULL")
        ]
    begin = min(datetime.fromisoformat(row[0]) for row in segments)
    end = max(datetime.fromisoformat(row[1]) for row in segments)
    return shares(metrics, (end - begin).total_seconds(), len(segments))


def tune(folder: Path) -> dict[str, float]:
    """Run Ray Tune over the same trials, and read where its time went from what its workers noted."""
    out = folder / "tune.json"
    run([sys.executable, str(HERE / "sweep_overhead_tune.py"), str(folder / "rlplan.db"), str(out)])
    noted = json.loads(out.read_text())
    return shares(noted["metrics"], noted["end"] - noted["begin"], noted["trials"])


def shares(metrics: list[dict], wall: float, pieces: int) -> dict[str, float]:
    """Return shares of the workers' time: by phase, and what is left."""
    whole = WORKERS * wall
    phases: dict[str, float] = {}
    for each in metrics:
        for name, seconds in each.get("seconds", {}).items():
            phases[name] = phases.get(name, 0.0) + seconds / whole
    busy = sum(phases.get(name, 0.0) for name in BUSY)
    own = sum(phases.values())
    return {**phases, "busy": busy, "between": 1 - own, "wall": wall, "pieces": pieces, "updates": len(metrics)}


def show(name: str, rounds: list[dict[str, float]]) -> None:
    """Print medians over the rounds."""
    middle = {key: statistics.median(each.get(key, 0.0) for each in rounds) for key in rounds[0]}
    spread = f"{min(each['busy'] for each in rounds):.1%}–{max(each['busy'] for each in rounds):.1%}"
    print(f"{name}: busy {middle['busy']:.1%} ({spread}), {middle['wall']:.0f} s, {middle['pieces']:.0f} pieces")
    print("  inside: " + ", ".join(f"{phase} {middle.get(phase, 0.0):.1%}" for phase in BUSY))
    print(
        f"  outside: start of a trial {middle.get('start', 0.0):.1%}, between the phases of an update "
        f"{middle.get('other', 0.0):.1%}, between updates, checkpoints, waiting {middle['between']:.1%}"
    )


def run(command: list[str]) -> None:
    """Run a side with one thread per process."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(HERE.parent),
        "TOKENIZERS_PARALLELISM": "false",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr[-3000:]}")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--budget", type=float, default=0.6, help="worker-hours, of which a fifth or more is for pilots"
    )
    parser.add_argument("--policy", default="rlplan")
    parser.add_argument("--trainers", nargs="+", choices=WAYS, help="measure these, a segment at a time")
    parser.add_argument("--trl-python", default=".venv-trl/bin/python", help="of TRL's own environment")
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--updates", type=int, default=20, help="of a segment")
    return parser.parse_args()


if __name__ == "__main__":
    main()
