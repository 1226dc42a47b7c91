"""The demo with many seeds: what was recommended and reached, and what the usual choice reached in as many hours.

    python bench/demo_seeds.py --folder F [--task sum-hard] [--budget 0.03] [--pilot-fraction 0.4] [--seeds 10]
        [-- FLAGS OF SWEEP]

For each seed: `rlplan propose`, `sweep` and `launch` in a folder of its own, then the plan's usual choice by `rlplan
launch PLAN`, with that seed and the steps that the final run's GPU-hours buy at the price that the sweep measured. The
catalogue's price may buy a fifth: that plan gets the budget of so many steps. A line a seed; what is done already is
read, not run again. GPU-hours are worker-hours of this machine: nothing else may run on it meanwhile, or the budget
buys less training.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from bench.commands import rlplan

COLUMNS = ("seed", "recommended", "promised", "reached", "held", "usual", "ahead", "of", "pruned", "minutes")


def demo(folder: Path, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run the demo, and return its part of a line of the table."""
    began, of_task = time.monotonic(), ("--task", given.task)
    split = ("--pilot-fraction", str(given.pilot_fraction))
    rlplan(folder, "propose", *of_task, "--budget", str(given.budget), *split)
    rlplan(folder, "sweep", "--seed", str(seed), *given.flags)
    final = rlplan(folder, "launch")["final"]
    minutes = (time.monotonic() - began) / 60  # what a reader waits for
    states = [each["state"] for each in rlplan(folder, "status")["trials"]]
    return {
        "seed": seed,
        "recommended": final["name"],
        "promised": round(final["promised"]["score"], 3),
        "reached": round(final["scores"][-1]["score"], 3),
        "held": bool(final["end"]["held"]),
        "pruned": states.count("pruned"),
        "minutes": round(minutes, 1),
    }


def usual(folder: Path, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run what somebody runs who tries nothing out, for the final run's GPU-hours."""
    row = rlplan(folder, "recommend")["usual"][0]
    n, B = row["rollouts_per_prompt"], row["prompts_per_batch"]
    of_task, hours = ("--task", given.task, "--pilot-fraction", "0", "--db", "usual.db"), given.budget
    for _ in range(2):  # the second plan is as long as the row
        plan = rlplan(folder, "propose", *of_task, "--budget", str(hours))
        cells = {(cell["rollouts_per_prompt"], cell["prompts_per_batch"]): cell for cell in plan["candidates"]}
        hours *= row["update_steps"] / cells[n, B]["update_steps"]
    flags = ("--allocation", f"n={n},B={B}", "--seed", str(seed), "--db", "usual.db")
    last = rlplan(folder, "launch", plan["plan"], *flags)["final"]["scores"][-1]
    return {"usual": round(last["score"], 3), "of": f"{row['name']}, {last['step']:,} steps"}


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a file holds, made where it is not there."""
    if not path.exists():
        path.write_text(json.dumps(make()), encoding="utf-8")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run what is missing, and print the table and its means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--task", default="sum-hard")
    parser.add_argument("--budget", type=float, default=0.03)
    parser.add_argument("--pilot-fraction", type=float, default=0.4)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("flags", nargs="*", help="of rlplan sweep, after --")
    given = parser.parse_args()
    lines = []
    print(" | ".join(COLUMNS) + "\n" + "|".join("---" for _ in COLUMNS))
    for seed in range(given.seeds):
        folder = given.folder.resolve() / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        line = kept(folder / "line.json", partial(demo, folder, seed, given))
        line |= kept(folder / "usual.json", partial(usual, folder, seed, given))
        lines.append(line | {"ahead": round(line["reached"] - line["usual"], 3)})
        print(" | ".join(str(lines[-1][name]) for name in COLUMNS), flush=True)
    means = {name: mean(line[name] for line in lines) for name in ("reached", "usual", "ahead", "held", "minutes")}
    print("mean: " + ", ".join(f"{name} {value:.3g}" for name, value in means.items()))


if __name__ == "__main__":
    main()
