"""The demo with many seeds: what rlplan reached from a script, and what the script alone reaches in as many hours.

    python bench/demo_seeds.py --folder F [--script examples/sum_hard/slow_rate.sh] [--budget 0.05] [--seeds 10]

For each seed `rlplan propose`, `sweep` and `launch` in a folder of its own, with the script's run as the champion, and
once more with `--alone`. A line a seed; what is done already is read, not run again. GPU-hours are worker-hours of this
machine: nothing else may run on it meanwhile, or the budget buys less training.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean
from typing import Any

from bench.commands import rlplan

COLUMNS = ("seed", "went on", "promised", "reached", "held", "alone", "gain", "used", "challengers", "minutes")


def end_of(scores: list[dict[str, Any]]) -> float:
    """Return the mean score over the last tenth of a run's updates: its last validation alone is off by .015."""
    whole = scores[-1]["step"]
    return float(mean(point["score"] for point in scores if point["step"] > 0.9 * whole))


def run(folder: Path, seed: int, arguments: argparse.Namespace, *flags: str) -> dict[str, Any]:
    """Start the script's run, look, decide and go on to the end; return what came of it."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    script = ("--from", str(arguments.script.resolve()), *flags)
    rlplan(folder, "propose", "--task", arguments.task, "--budget", str(arguments.budget), *script)
    rlplan(folder, "sweep", "--seed", str(seed))
    trials = rlplan(folder, "status")["trials"]
    final = rlplan(folder, "launch")["final"]
    spent = sum(trial["gpu_hours_spent"] for trial in trials) + final["gpu_hours_spent"]
    return {
        "name": final["name"],
        "promised": round(final["promised"]["score"], 3),
        "held": bool(final["end"]["held"]),
        "reached": round(end_of(final["scores"]), 3),
        "used": round(spent / arguments.budget, 3),
        "challengers": round(sum(trial["gpu_hours_spent"] for trial in trials[1:]) / arguments.budget, 3),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def kept(path: Path, seed: int, arguments: argparse.Namespace, *flags: str) -> dict[str, Any]:
    """Return what a file holds, made where it is not there."""
    if not path.exists():
        outcome = run(path.with_suffix(""), seed, arguments, *flags)
        path.write_text(json.dumps(outcome), encoding="utf-8")
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return stored


def main() -> None:
    """Run what is missing, and print the table and its means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--script", type=Path, default=Path("examples/sum_hard/slow_rate.sh"))
    parser.add_argument("--task", default="sum-hard")
    parser.add_argument("--budget", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    lines = []
    print(" | ".join(COLUMNS) + "\n" + "|".join("---" for _ in COLUMNS))
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        folder = arguments.folder.resolve() / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        ours = kept(folder / "ours.json", seed, arguments)
        alone = kept(folder / "alone.json", seed, arguments, "--alone")["reached"]
        lines.append({**ours, "seed": seed, "went on": ours["name"], "alone": alone})
        lines[-1]["gain"] = round(ours["reached"] - alone, 3)
        print(" | ".join(str(lines[-1][name]) for name in COLUMNS), flush=True)
    means = {name: mean(line[name] for line in lines) for name in COLUMNS[3:]}
    print("mean: " + ", ".join(f"{name} {value:.3g}" for name, value in means.items()))


if __name__ == "__main__":
    main()
