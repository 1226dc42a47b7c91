"""The demo with many seeds: what was recommended and reached, and what the usual choice reached with the same money.

    python bench/demo_seeds.py --folder F [--task sum-hard] [--budget 0.03] [--pilot-fraction 0.4] [--seeds 10]
        [--usual n=8,B=64] [-- FLAGS OF SWEEP]

For each seed: `rlplan propose`, `sweep` and `launch` in a folder of its own, then the usual choice as the final run of
a plan without pilots that has the final run's budget. A line a seed; what is done already is read, not run again.
GPU-hours are worker-hours of this machine: nothing else may run on it meanwhile, or the budget buys less training.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

RLPLAN = str(Path(sys.executable).with_name("rlplan"))
COLUMNS = ("seed", "recommended", "promised", "reached", "held", "usual", "ahead", "pruned", "minutes")


def rlplan(folder: Path, *words: str) -> dict[str, Any]:
    """Return the document that a command prints; exit code 5 is a warning at its end."""
    done = subprocess.run([RLPLAN, *words, "--format", "json"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 5):
        raise SystemExit(f"demo_seeds: rlplan {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def demo(folder: Path, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run the demo and the usual choice, and return the line of the table."""
    began, of_task = time.monotonic(), ("--task", given.task)
    split = ("--pilot-fraction", str(given.pilot_fraction))
    rlplan(folder, "propose", *of_task, "--budget", str(given.budget), *split)
    rlplan(folder, "sweep", "--seed", str(seed), *given.flags)
    final = rlplan(folder, "launch")["final"]
    minutes = (time.monotonic() - began) / 60  # what a reader waits for
    own = ("--db", "usual.db")
    rlplan(folder, "propose", *of_task, "--budget", f"{final['budget_gpu_hours']:.6g}", "--pilot-fraction", "0", *own)
    usual = rlplan(folder, "launch", "plan-1", "--allocation", given.usual, *own)["final"]
    states = [each["state"] for each in rlplan(folder, "status")["trials"]]
    reached, other = final["scores"][-1]["score"], usual["scores"][-1]["score"]
    return {
        "seed": seed,
        "recommended": final["name"],
        "promised": round(final["promised"]["score"], 3),
        "reached": round(reached, 3),
        "held": bool(final["end"]["held"]),
        "usual": round(other, 3),
        "ahead": round(reached - other, 3),
        "pruned": states.count("pruned"),
        "minutes": round(minutes, 1),
    }


def main() -> None:
    """Run what is missing, and print the table and its means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--task", default="sum-hard")
    parser.add_argument("--budget", type=float, default=0.03)
    parser.add_argument("--pilot-fraction", type=float, default=0.4)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--usual", default="n=8,B=64")
    parser.add_argument("flags", nargs="*", help="of rlplan sweep, after --")
    given = parser.parse_args()
    lines = []
    print(" | ".join(COLUMNS) + "\n" + "|".join("---" for _ in COLUMNS))
    for seed in range(given.seeds):
        folder = given.folder.resolve() / f"seed-{seed}"
        done = folder / "line.json"
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=False)
            done.write_text(json.dumps(demo(folder, seed, given)), encoding="utf-8")
        lines.append(json.loads(done.read_text(encoding="utf-8")))
        print(" | ".join(str(lines[-1][name]) for name in COLUMNS), flush=True)
    means = {name: mean(line[name] for line in lines) for name in ("reached", "usual", "ahead", "held", "minutes")}
    print("mean: " + ", ".join(f"{name} {value:.3g}" for name, value in means.items()))


if __name__ == "__main__":
    main()
