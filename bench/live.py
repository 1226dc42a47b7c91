"""The whole loop live: is what `rlplan recommend` says after pilots of 10 % of the grid's cost near the grid's best?

    python bench/live.py --db-folder F [--tasks sum-easy sum-hard] [--seeds 0 1 2 3 4] [--workers 2]

For each task and seed: `rlplan propose`, `rlplan sweep` with its own policy, `rlplan recommend`, and the command it
gives, so that the final run goes on from its pilot's checkpoint where there is one. Validation, target and the truth of
all thirty cells are AllocBench's. A small sweep of each task comes first and calibrates the prices. The table is in
GPU-hours of a quiet machine; how much slower this one is, is read off that sweep for the budget, and off each sweep
itself for the length of its final run. `length` tells whether that was right: 1 is as long as the runs of the grid.
It can be stopped and started again at any time: what is done is kept in the folder.

    python bench/live.py --db-folder F --tasks sum-hard --share 0.04 --after sum-easy [--seeds 0 1 2]

puts one sweep of another task (a tenth of its grid's cost) first into the same database, and every loop learns from it.
Other loops learn from nothing.

    python bench/live.py --db-folder F --pruned [20] [--seeds 0 1] [--workers 2]

sweeps `sum-easy` with 0.05 GPU-hours instead, with as many seeds or with those that are named, trains every run that a
sweep gave up to the sweep's target, from its checkpoint, and prints how many end above the upper bound of what was
predicted of them when they were given up. F/pruned.csv keeps the rows; a sweep with all of its runs takes some ten
minutes of two cores.
"""

import argparse
import os
import sys
from pathlib import Path

from live_parts.grid import Grid
from live_parts.loop import Loops
from live_parts.pruned import measure
from live_parts.rows import COLUMNS, Row, report, row

from budgets.errors import RlplanError

TASKS = ("sum-easy", "sum-hard")
SEEDS = range(5)
SOURCE_SHARE = 0.10  # of its grid's cost, for the sweep that is learnt from
ENOUGH_AFTER = 0.9  # of the final runs near the best, where a sweep is learnt from


def main() -> int:
    """Run what is missing, print the table, and return how many bars were missed."""
    given = arguments()
    if given.pruned is not None:
        return measure(given.seeds or range(given.pruned), given.db_folder.resolve(), given.workers)
    rows = []
    try:
        loops = {task: of_task(task, given) for task in given.tasks}
        print(COLUMNS + "\n" + "|---" * COLUMNS.count(" | ") + "|---|", flush=True)
        for seed in given.seeds or SEEDS:
            for each in loops.values():
                rows.append(loop(each, seed))
                print(rows[-1].line(), flush=True)
    except RlplanError as error:
        print(f"live: {error}", file=sys.stderr)
        return 2
    return report(rows, 1.0 if given.after is None else ENOUGH_AFTER)


def of_task(task: str, given: argparse.Namespace) -> Loops:
    """Return the loops of a task as the command line asks for them."""
    folder = given.db_folder.resolve()
    if given.after is None:
        return Loops(folder, task, Grid.read(task), given.share, given.workers)
    return Loops.following(folder, task, given.after, (given.share, SOURCE_SHARE), given.workers)


def loop(loops: Loops, seed: int) -> Row:
    """Go through one loop, or read it where it has been gone through."""
    said = loops.recommended(seed, loops.plan())
    return row(loops, seed, said, loops.observed(seed, said))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--after", choices=TASKS, help="learn from a sweep of this other task")
    parser.add_argument("--seeds", nargs="+", type=int, help="0 to 4")
    parser.add_argument("--pruned", nargs="?", type=int, const=20, metavar="SWEEPS", help="measure what is given up")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--share", type=float, default=0.10, help="of the full grid's cost, for the pilots")
    parser.add_argument("--db-folder", type=Path, default=Path("live"), help="databases, runs and answers")
    given = parser.parse_args()
    if given.after in given.tasks:
        parser.error(f"--after {given.after} is among --tasks: leave it out there")
    return given


if __name__ == "__main__":
    sys.exit(main())
