"""AllocBench: real GRPO runs over a grid of (n, B), made, exported as tables, and what they show.

    python bench/allocbench.py make --folder F [--tasks sum-easy sum-hard] [--seeds 0 1 2] [--recipes dr-grpo scalerl]
    python bench/allocbench.py export --folder F [--out bench/data]
    python bench/allocbench.py findings [--page bench/results/allocbench.md]

`make` drives `rlplan sweep --policy full` and can be stopped and started again at any time; with `--recipes` it makes
the sub-grid for these recipes instead of the whole grid for each task's own; tasks are the embedded ones and those of
allocating/own_tasks.py, and `--budget-scale` makes shorter runs. `export` reads what is finished so far,
also while a sweep runs. `findings` prints every number behind docs/allocbench.md and draws its pictures;
with `--page` the numbers also replace those of that page.
"""

import argparse
import io
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
from allocating.making import How, Part, make
from allocating.prices import Prices, Work, quiet_prices
from allocating.reading import Recorded, recorded
from allocating.table import write

from budgets.errors import InputError, RlplanError

TASKS = ("sum-easy", "sum-hard")
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"
HERE = Path(__file__).resolve().parent


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands."""
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
        if given.command == "export":
            for task in given.tasks:
                export(given.folder, task, given.out)
            return 0
        findings(given)
    except RlplanError as error:
        print(f"allocbench: {error}", file=sys.stderr)
        return 2
    return 0


def findings(given: argparse.Namespace) -> None:
    """Print the numbers, put them into the page, and draw the pictures."""
    from allocating.pictures import draw, draw_recipes
    from allocating.report import read_all, report

    found = read_all(given.data, given.tasks)
    text = io.StringIO()
    with redirect_stdout(text):
        report(found)
    print(text.getvalue())
    for task, runs in found.recipes.items():
        draw_recipes(runs, given.pictures / f"allocbench-recipes-{task}.png")
    if found.tables:
        draw(found.tables, found.predicted, given.pictures)
    if given.page:
        page = given.page.read_text(encoding="utf-8")
        before, mark, rest = page.partition(BEGIN)
        if not mark or END not in rest:
            raise InputError(f"'{given.page}' has no lines '{BEGIN}' and '{END}' for the numbers to stand between")
        whole = f"{before}{BEGIN}\n```text\n{text.getvalue().strip()}\n```\n{END}{rest.partition(END)[2]}"
        given.page.write_text(whole, encoding="utf-8")


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
    """Print the prices, how well they describe the cells, and how busy the machine was."""
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
    cells = sorted({(each.n, each.B) for each in runs})
    off = [unexplained([each.work for each in runs if (each.n, each.B) == cell], prices) for cell in cells]
    scatter = np.log(off).std()
    print(f"  updates ÷ load ÷ price, medians of cells: {min(off):.2f}–{max(off):.2f}, sd of the log {scatter:.2f}")
    for seed in sorted({each.seed for each in runs}):
        own = quiet_prices([each.work for each in runs if each.seed == seed])
        ratios = [own.gpu_hours(each.work)[-1] / prices.gpu_hours(each.work)[-1] for each in runs]
        middle, scatter = np.median(ratios), np.log(ratios).std()
        print(f"  hours of a run by seed {seed}'s prices ÷ by all: {middle:.2f}, sd of the log {scatter:.2f}")


def unexplained(works: list[Work], prices: Prices) -> float:
    """Return the median of what load and price leave of the seconds of a cell's updates."""
    ratios = [
        (work.generating + work.training)[1:] / work.load(prices.validating)[1:] / prices.update(work)[1:]
        for work in works
    ]
    return float(np.median(np.concatenate(ratios)))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="run what is missing")
    exporting = commands.add_parser("export", help="write the tables")
    finding = commands.add_parser("findings", help="print the numbers and draw the pictures")
    for command in (making, exporting, finding):
        command.add_argument("--tasks", nargs="+", default=list(TASKS), help="tasks (default: the two of sums)")
    for command in (making, exporting):
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
    finding.add_argument("--data", type=Path, default=HERE / "data")
    finding.add_argument("--page", type=Path, help="a page whose block of numbers is replaced by these")
    finding.add_argument("--pictures", type=Path, default=HERE.parent / "docs" / "pictures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
