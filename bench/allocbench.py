"""AllocBench: real GRPO runs over a grid of (n, B), made and exported as tables.

    python bench/allocbench.py make --folder F [--tasks sum-easy sum-hard] [--seeds 0 1 2] [--recipes dr-grpo scalerl]
    python bench/allocbench.py export --folder F [--out bench/data]

`make` drives `rlplan sweep --policy full` and can be stopped and started again at any time; with `--recipes` it makes
the sub-grid for these recipes instead of the whole grid for each task's own; tasks are the embedded ones and those of
allocating/own_tasks.py, and `--budget-scale` makes shorter runs. `export` reads what is finished so far,
also while a sweep runs.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from allocating.making import How, Part, make
from allocating.prices import Prices, quiet_prices
from allocating.reading import Recorded, recorded
from allocating.table import write

from budgets.errors import RlplanError

TASKS = ("sum-easy", "sum-hard")
HERE = Path(__file__).resolve().parent


def main(arguments: list[str] | None = None) -> int:
    """Run one of the two commands."""
    given = parse(arguments)
    try:
        if given.command == "make":
            recipes = given.recipes or [None]
            parts = [
                Part(given.folder.resolve(), task, recipe, given.budget_scale)
                for recipe in recipes
                for task in given.tasks
            ]
            return make(parts, given.seeds, How(given.workers, given.accept_changes, given.again))
        for task in given.tasks:
            export(given.folder, task, given.out)
    except RlplanError as error:
        print(f"allocbench: {error}", file=sys.stderr)
        return 2
    return 0


def export(folder: Path, task: str, out: Path) -> None:
    """Write the table of a task, and one with several recipes on the sub-grid where there are such runs."""
    own = Part(folder, task)
    whole = recorded(own.database, task)
    if not whole:
        print(f"{task}: no run that has ended in {own.database}")
        return
    prices = quiet_prices([each.work for each in whole])
    describe(task, whole, prices)
    size = write((each.run(prices) for each in whole), out / f"allocbench-{task}.csv.gz")
    print(f"  allocbench-{task}.csv.gz: {len(whole)} runs, {size / 1000:.0f} kB")
    others = [part for path in sorted(folder.glob(f"{own.name}-*.db")) for part in [recipe_part(own, path)]]
    runs = [each for part in others for each in recorded(part.database, task)]
    if not runs:
        return
    cells, seeds = {(each.n, each.B) for each in runs}, {each.seed for each in runs}
    rows = [each.run(prices) for each in whole if (each.n, each.B) in cells and each.seed in seeds]
    for recipe in sorted({each.recipe for each in runs}):
        same = [each for each in runs if each.recipe == recipe]
        its = quiet_prices([each.work for each in same])
        describe(f"{task}, {recipe}", same, its)
        rows += [each.run(its) for each in same]
    size = write(rows, out / f"allocbench-recipes-{task}.csv.gz")
    print(f"  allocbench-recipes-{task}.csv.gz: {len(rows)} runs, {size / 1000:.0f} kB")


def recipe_part(own: Part, database: Path) -> Part:
    """Return the part that a database of the sub-grid belongs to."""
    return Part(own.folder, own.task, database.stem.removeprefix(f"{own.name}-"))


def describe(name: str, runs: list[Recorded], prices: Prices) -> None:
    """Print the prices, and how busy the machine was."""
    print(f"{name}: {len(runs)} runs that have ended, seeds {sorted({each.seed for each in runs})}")
    for side, price in (("generating", prices.generating), ("training", prices.training)):
        ms = [1000 * part for part in (price.fixed, price.per_rollout, price.per_prompt)]
        print(f"  {side}: {ms[0]:.2f} ms an update + {ms[1]:.4f} ms a rollout + {ms[2]:.3f} ms a prompt")
    print(f"  a validation: {1000 * prices.validating:.1f} ms")
    busy = np.array([each.work.measured[-1] / 3600 / prices.gpu_hours(each.work)[-1] for each in runs])
    low, middle, high = np.quantile(busy, (0.1, 0.5, 0.9))
    extremes = f"{busy.min():.2f}–{busy.max():.2f}"
    print(f"  measured ÷ quiet, by run: median {middle:.2f}, 80 % within {low:.2f}–{high:.2f}, all {extremes}")
    print(
        f"  measured {sum(each.work.measured[-1] for each in runs) / 3600:.2f} h, "
        f"quiet {sum(prices.gpu_hours(each.work)[-1] for each in runs):.2f} h"
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="run what is missing")
    exporting = commands.add_parser("export", help="write the tables")
    for command in (making, exporting):
        command.add_argument("--tasks", nargs="+", default=list(TASKS), help="tasks (default: the two of sums)")
        command.add_argument("--folder", type=Path, required=True, help="databases, checkpoints and logs")
    making.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    making.add_argument("--recipes", nargs="+", help="make the sub-grid with these recipes instead")
    making.add_argument(
        "--budget-scale", type=float, default=1.0, help="length of the runs, in that of the first tables"
    )
    making.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    making.add_argument("--accept-changes", action="store_true", help="resume although the code has changed since")
    making.add_argument("--again", action="store_true", help="sweep a seed again where the GPU-hours of runs ran out")
    exporting.add_argument("--out", type=Path, default=HERE / "data")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
