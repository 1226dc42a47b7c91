"""Every run that live sweeps gave up, trained to the end: how many end above the bound that they were given up by."""

import csv
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .loop import ENDED, rlplan, say, trained

TASK, BUDGET = "sum-easy", 0.05
NEAR_TARGET = 0.95  # of it, where a run that is shorter is trained on
MOST_ABOVE = 0.10  # of them may end above the upper bound of a 90 % interval
COLUMNS = "| seed | run | given up after | at | predicted there, 90 % | reached | after | above |"


@dataclass(frozen=True)
class GivenUp:
    """A pruned trial: what was predicted of it when it was given up, and what it reached."""

    seed: int
    trial: str
    pruned_at_gpu_hours: float
    target_gpu_hours: float
    predicted: float
    low: float
    high: float
    reached: float
    reached_at_gpu_hours: float

    @property
    def above(self) -> bool:
        """Whether it ended above its upper bound."""
        return self.reached > self.high

    def line(self) -> str:
        """Return the row of the table."""
        return (
            f"| {self.seed} | {self.trial} | {self.pruned_at_gpu_hours:.5f} | {self.target_gpu_hours:.4f} "
            f"| {self.predicted:.3f} ({self.low:.3f} to {self.high:.3f}) | {self.reached:.3f} "
            f"| {self.reached_at_gpu_hours:.4f} | {'YES' if self.above else 'no'} |"
        )


NAMES = tuple(each.name for each in fields(GivenUp))


@dataclass(frozen=True)
class Pruning:
    """A pruned trial as its sweep left it."""

    trial: str
    at: float
    seen: dict[str, Any]  # what the decision rested on: target_gpu_hours, median, low and high of its configuration


def measure(seeds: Sequence[int], folder: Path, workers: int) -> int:
    """Run what is missing, print a row for each run that was given up and their share; return how many bars missed."""
    folder.mkdir(parents=True, exist_ok=True)
    print(COLUMNS + "\n" + "|---" * 8 + "|", flush=True)
    rows = []
    for seed in seeds:
        for each in of_seed(seed, folder, workers):
            rows.append(each)
            print(each.line(), flush=True)
    return report(rows, len(seeds))


def of_seed(seed: int, folder: Path, workers: int) -> Iterator[GivenUp]:
    """Sweep with a seed and train on what was given up, or read what has been done of that."""
    database, kept = folder / f"pruned-s{seed}.db", folder / "pruned.csv"
    _swept(seed, database, folder, workers)
    known = {row.trial: row for row in read(kept) if row.seed == seed}
    found = prunings(database)
    missing = [each for each in found if each.trial not in known]
    with ThreadPoolExecutor(workers) as pool:  # as many runs beside each other as in the sweep: the same speed
        for row in pool.map(lambda each: _to_the_end(seed, each, database, folder), missing):
            if row is not None:
                known[row.trial] = row
                keep(kept, row)
    yield from (known[each.trial] for each in found if each.trial in known)


def prunings(database: Path) -> list[Pruning]:
    """Return what the sweep of a database gave up, with how far each had come."""
    wanted = """
        SELECT trials.name, (SELECT max(gpu_hours) FROM points WHERE trial_id = trials.id), decisions.seen
        FROM decisions JOIN trials ON trials.id = decisions.trial_id
        WHERE decisions.action = 'prune' AND trials.state = 'pruned' ORDER BY decisions.number
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [Pruning(name, at, json.loads(seen)) for name, at, seen in connection.execute(wanted).fetchall()]


def read(path: Path) -> list[GivenUp]:
    """Read what has been measured so far."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            GivenUp(int(row["seed"]), row["trial"], *(float(row[name]) for name in NAMES[2:]))
            for row in csv.DictReader(stream)
        ]


def keep(path: Path, row: GivenUp) -> None:
    """Add a measurement to the file."""
    fresh = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, NAMES)
        if fresh:
            writer.writeheader()
        writer.writerow(asdict(row))


def report(rows: Sequence[GivenUp], sweeps: int) -> int:
    """Print the share of runs that ended above their bound, and return 1 if it is too large."""
    if not rows:
        print(f"\nnothing was given up in {sweeps} sweeps: the bar says nothing")
        return 0
    above, below = sum(row.above for row in rows), sum(row.reached < row.low for row in rows)
    share, bias = above / len(rows), sum(row.predicted - row.reached for row in rows) / len(rows)
    verdict = "ok" if share <= MOST_ABOVE else "MISSED"
    print(
        f"\n{above} of {len(rows)} runs given up in {sweeps} sweeps of {BUDGET} GPU-hours end above their upper bound "
        f"({share:.0%}; at most {MOST_ABOVE:.0%}): {verdict}\n{below} end below their lower bound; predicted minus "
        f"reached is {bias:+.3f} on average"
    )
    return int(share > MOST_ABOVE)


def _swept(seed: int, database: Path, folder: Path, workers: int) -> None:
    common = ["--workers", str(workers), "--db", str(database), "--format", "json"]
    status = _status(database)
    if status is None:
        asked = ["--task", TASK, "--budget", str(BUDGET), "--seed", str(seed), "--learn-from", "none"]
        rlplan("sweep", *asked, "--folder", str(folder / f"pruned-s{seed}"), *common)
    elif status not in ENDED:
        rlplan("resume", "--accept-changes", *common)


def _status(database: Path) -> str | None:
    if not database.is_file():
        return None
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT status FROM sweeps ORDER BY id DESC LIMIT 1").fetchone()
    return None if row is None else str(row[0])


def _to_the_end(seed: int, pruning: Pruning, database: Path, folder: Path) -> GivenUp | None:
    """Train a run that was given up to the target of its sweep, from its base model; None for one that never trained.

    Its seed makes it the same run; one that turned out cheaper than it looked is trained once more, for longer.
    """
    shown = json.loads(rlplan("show", pruning.trial, "--db", str(database), "--format", "json"))
    if not shown["step"]:
        say(f"{pruning.trial} in {database} is left out, for it has made no update")
        return None
    said = pruning.seen
    target = said["target_gpu_hours"]
    size = ["-n", str(shown["rollouts_per_prompt"]), "-B", str(shown["prompts_per_batch"])]
    further = ["--learning-rate", repr(shown["learning_rate"]), "--seed", str(shown["seed"])]
    settings = ["--task", TASK, *size, *further, "--budget", repr(10 * target)]
    steps = math.ceil(shown["step"] * target / pruning.at)
    while True:
        made = trained(settings, folder / f"pruned-s{seed}-{pruning.trial}-{steps}.db", steps)
        points = [(gpu_hours, score) for _, gpu_hours, score in made]
        if (took := points[-1][0]) >= NEAR_TARGET * target:
            break
        steps = math.ceil(made[-1][0] * 1.05 * target / took)
    score, at = reached(points, target)
    say(f"{pruning.trial} of seed {seed} was predicted {said['median']:.3f} and reached {score:.3f}")
    return GivenUp(
        seed,
        pruning.trial,
        pruning.at,
        target,
        said["median"],
        said["low"],
        said["high"],
        score,
        at,
    )


def reached(points: Sequence[tuple[float, float]], target: float) -> tuple[float, float]:
    """Return the mean score over the last tenth of the compute up to a target, and where that ends.

    The price of a step rests on few steps when a run is given up, so that it may be trained beyond the target.
    """
    upto = [point for point in points if point[0] <= target] or list(points[:1])
    end = upto[-1][0]
    near = [score for at, score in upto if at >= 0.9 * end]
    return sum(near) / len(near), end
