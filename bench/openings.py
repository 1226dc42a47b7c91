"""Regret by what the first pilots are: spread over the grid as the policy does it, or in an order known beforehand.

    python bench/openings.py [--tables allocbench held-out] [--repeats 3] [--workers 1 8] [--first 1 4]

Until so many cells have a curve (never fewer than there are workers) the next one in the order is started, as long as
the policy's own first pilots are; then the policy decides as ever. `spread` is its own order. `signal` takes the
cheapest update with signal first: n · B over 1 − pⁿ − (1 − p)ⁿ, with p the score before training.
`ranked` is the order of `rlplan propose`, for tables of an embedded task.
"""

import argparse
import functools
import itertools
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from bench.deciding import tables
from bench.deciding.statistics import estimated
from planner.pooling.features import spread_out
from planner.pooling.pool import Pool
from planner.replaying.choosing import open_chooser
from planner.replaying.play import play
from planner.replaying.recorded import Recorded
from planner.sweeping.actions import Action, Advance
from planner.sweeping.informed import InformedPolicy
from planner.trials import TrialState
from planner.view import Configuration, View, has_curve

SHARES: Final = (0.02, 0.05, 0.10)
SPREAD, SIGNAL, RANKED = "spread", "signal", "ranked"
OPENINGS: Final = (SPREAD, SIGNAL, RANKED)
TASKS: Final = ("sum-easy", "sum-hard")  # those with a plan over the cells of their table


class Opened(InformedPolicy):
    """The policy rlplan, whose first pilots are of the cells that stand first in an order."""

    def __init__(self, order: Sequence[Configuration], first: int, pool: Pool) -> None:
        super().__init__(pool=pool)
        self._order, self._first = order, first

    def decide(self, view: View) -> Sequence[Action]:
        """Start the next cells of the order while there are too few curves; then decide as ever."""
        begun = {
            trial.configuration
            for trial in view.trials.values()
            if has_curve(trial) or trial.state is TrialState.RUNNING
        }
        if view.free_workers > 0 and len(begun) < self._first:
            actions = InformedPolicy().decide(self._opening(view, begun))
            if any(isinstance(action, Advance) for action in actions):
                return [action for action in actions if isinstance(action, Advance)]
        return super().decide(view)

    def _opening(self, view: View, begun: set[Configuration]) -> View:
        """Return what a policy would see that had the next cells alone, and what is running."""
        wanted = [cell for cell in self._order if cell not in begun]
        shown = set(wanted[: min(view.free_workers, self._first - len(begun))])
        trials = {
            number: trial
            for number, trial in view.trials.items()
            if trial.state is TrialState.RUNNING or (trial.configuration in shown and not has_curve(trial))
        }
        return replace(view, trials=trials)


def order_of(opening: str, table: str, recorded: Recorded, seed: int) -> list[Configuration] | None:
    """Return the cells in the order of an opening; None where there is no such order."""
    cells = list(dict.fromkeys(run.configuration for run in recorded.in_order(seed)))
    if opening == SPREAD:
        return [cells[place] for place in spread_out(cells, len(cells))]
    if opening == SIGNAL:
        chance = float(np.mean([run.scores[0] for run in recorded.runs]))
        return sorted(cells, key=lambda cell: price_of_signal(cell, chance))
    task = table.removeprefix(f"{tables.ALLOCBENCH}/").partition("@")[0]
    if task not in TASKS:
        return None
    ranks = _ranks(task)
    return sorted(cells, key=lambda cell: ranks[cell[:2]])


def price_of_signal(cell: Configuration, chance: float) -> float:
    """Return the rollouts of an update for each share of its groups that carries signal."""
    n, B, _ = cell
    carries: float = 1.0 - chance**n - (1.0 - chance) ** n
    return n * B / max(carries, 1e-9)


@functools.lru_cache
def _ranks(task: str) -> dict[tuple[int, int], int]:
    from rlplan import propose

    with tempfile.TemporaryDirectory() as folder:
        plan = propose(0.03, task=task, db=Path(folder) / "plan.db")
        return {(each.rollouts_per_prompt, each.prompts_per_batch): each.rank for each in plan.candidates}


@dataclass(frozen=True)
class Outcome:
    """One play."""

    table: str
    opening: str
    workers: int
    first: int
    share: float
    repeat: int
    regret: float


Task = tuple[str, int, tuple[int, ...], tuple[int, ...], tuple[float, ...]]


def played(task: Task) -> list[Outcome]:
    """Play a table with every opening, number of workers and budget."""
    table, repeat, several, firsts, shares = task
    recorded, target = tables.table(table, repeat)
    full, found = recorded.full_cost(target), []
    for opening, (workers, first) in itertools.product(OPENINGS, settings(several, firsts)):
        order = order_of(opening, table, recorded, repeat)
        for share in shares if order is not None else ():
            assert order is not None
            pool = Pool()
            one = play(
                recorded,
                Opened(order, first, pool),
                budget=share * full,
                target=target,
                seed=repeat,
                workers=workers,
                chooser=open_chooser("rlplan", pool),
                trace=False,
            )
            found.append(Outcome(table, opening, workers, first, share, repeat, one.regret))
    return found


def settings(several: Sequence[int], firsts: Sequence[int]) -> list[tuple[int, int]]:
    """Return numbers of workers with how many cells the opening has: at least one for each worker."""
    return sorted({(workers, max(workers, first)) for workers in several for first in firsts})


def main() -> None:
    """Play everything and print the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["allocbench", "held-out"], help="groups or names of tables")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--first", nargs="+", type=int, default=[1, 4], help="cells of the opening")
    parser.add_argument("--budgets", nargs="+", type=float, default=list(SHARES), help="shares of the full grid")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    asked = tuple(given.workers), tuple(given.first), tuple(given.budgets)
    tasks = [(name, repeat, *asked) for repeat in range(given.repeats) for name in tables.suite_names(given.tables)]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        done = [one for found in pool.imap_unordered(played, tasks) for one in found]
    for group in dict.fromkeys(one.table.partition("/")[0] for one in done):
        for setting in settings(given.workers, given.first):
            own = [one for one in done if one.table.startswith(f"{group}/") and (one.workers, one.first) == setting]
            _printed(f"{group}, {setting[0]} workers, opening of {setting[1]} cells", own, given.budgets)


def _printed(title: str, done: Sequence[Outcome], shares: Sequence[float]) -> None:
    print(f"\n{title}: mean regret ± standard error; of others, of the difference to spread over the same plays")
    print(f"  {'':<10}" + "".join(f"{share:>34g}" for share in shares))
    base = {(one.table, one.share, one.repeat): one.regret for one in done if one.opening == SPREAD}
    for opening in [each for each in OPENINGS if any(one.opening == each for one in done)]:
        cells = []
        for share in shares:
            own = [one for one in done if (one.opening, one.share) == (opening, share)]
            told = estimated([(one.table, one.regret) for one in own])
            away = estimated([(one.table, one.regret - base[one.table, one.share, one.repeat]) for one in own])
            difference = "" if opening == SPREAD else f" ({away.mean:+.4f}±{away.error:.4f})"
            cells.append(f"{told.mean:.4f}±{told.error:.4f}{difference}")
        count = len({one.table for one in done if one.opening == opening})
        print(f"  {opening:<10}" + "".join(f"{cell:>34}" for cell in cells) + f"  {count} tables")


if __name__ == "__main__":
    main()
