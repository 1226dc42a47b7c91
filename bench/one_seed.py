"""Real tables with one seed a cell: regret by the score of the chosen run itself, and by its configuration's mean.

    python bench/one_seed.py [--repeats 6] [--processes 2] [--tasks sum-easy sum-hard] [--peers grid-halving …]

A final run goes on from its pilot, luck included; another one of the same configuration does not have it. Of the three
seeds of AllocBench's tables one is played at a time, so that a choice has both regrets: what the chosen run falls short
of the best run, and what its configuration's mean over all seeds falls short of the best mean. `knows the means` is the
choice of who knows every mean score at the target, `knows the other seeds` of who has seen two other seeds of every
cell to the end: what is left of regret then is luck. `last` and `long` choose by last scores in the place of what is
believed.
"""

import argparse
import functools
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.deciding import tables, tasking
from bench.deciding.ours import RLPLAN, RULES, seen_to_the_end
from bench.deciding.statistics import mean_with_error
from planner.pooling.pool import Pool
from planner.replaying.choosing import open_chooser
from planner.replaying.recorded import Recorded
from planner.sweeping.policies import open_policy
from planner.view import Configuration

SHARES: Final = (0.02, 0.05, 0.10, 0.20, 0.50)
TASKS: Final = ("sum-easy", "sum-hard")
SEEDS: Final = (0, 1, 2)
BELIEVED: Final = "believed"
POLICIES: Final = (RLPLAN, "asha", "hyperband")
MEANS, OTHERS = "knows the means", "knows the other seeds"
CACHE: Final = Path(__file__).parent.parent / ".decisions-cache"


@dataclass(frozen=True)
class OneSeed:
    """The runs of one seed of a recorded table, and what is true of them and of their configurations."""

    table: str
    runs: Recorded
    own: Mapping[Configuration, float]
    mean: Mapping[Configuration, float]
    others: Mapping[Configuration, float]  # over the other seeds alone
    target: float

    def regrets(self, chosen: Configuration) -> tuple[float, float]:
        """Return what the chosen run, and its configuration's mean, fall short of the best."""
        return max(self.own.values()) - self.own[chosen], max(self.mean.values()) - self.mean[chosen]


@dataclass(frozen=True)
class OneSeedOutcome:
    """One choice with both of its regrets."""

    table: str
    method: str
    rule: str
    share: float
    own: float
    mean: float


@functools.lru_cache
def one_seed(task: str, share: float, seed: int) -> OneSeed:
    """Return a table of AllocBench as who made one seed of it would have it."""
    whole, target = tables.opened(task, share)
    runs, others = (Recorded(tuple(run for run in whole.runs if (run.seed == seed) is same)) for same in (True, False))
    name = f"{task}@{share:g}, seed {seed}"
    return OneSeed(name, runs, runs.truth(target), whole.truth(target), others.truth(target), target)


def played(task: tuple[str, float, int, int, str]) -> list[OneSeedOutcome]:
    """Play a policy with every budget, and let every rule choose after it."""
    name, target_share, seed, repeat, policy = task
    table, found = one_seed(name, target_share, seed), []
    for share in SHARES:
        pool = Pool()
        last, view = seen_to_the_end(
            open_policy(policy, search=None, pool=pool),
            open_chooser(RLPLAN, pool),
            table.runs,
            budget=share * table.runs.full_cost(table.target),
            target=table.target,
            seed=repeat,
            workers=1,
        )
        chosen = {BELIEVED: last} | {rule: of(view) or last for rule, of in RULES.items()}
        found += [
            OneSeedOutcome(table.table, policy, rule, share, *table.regrets(each)) for rule, each in chosen.items()
        ]
    return found


def peers_played(tasks: Sequence[tuple[str, float, int]], repeats: int, peers: Sequence[str]) -> list[OneSeedOutcome]:
    """Let the peers' own code choose; those that need no package of their own run in this environment."""
    cache, found = tasking.Cache(CACHE), []
    server = tasking.Server(Path(sys.executable), cache)
    for table in (one_seed(*task) for task in tasks):
        full, digest = table.runs.full_cost(table.target), cache.put(table.runs, table.target)
        for repeat in range(repeats):
            for job in tasking.jobs(digest, peers, [share * full for share in SHARES], repeat, (1,)):
                choices, _ = server.answer(job)
                for share, chosen in zip(SHARES, choices, strict=True):
                    one = table.runs.configurations[chosen["last"]] if chosen else table.runs.configurations[0]
                    found.append(OneSeedOutcome(table.table, job.peer, "last", share, *table.regrets(one)))
    server.close()
    return found


def limits(tasks: Sequence[tuple[str, float, int]]) -> list[OneSeedOutcome]:
    """Return the choices of those who know what no sweep of one seed can tell."""
    found = []
    for table in (one_seed(*task) for task in tasks):
        for name, known in ((MEANS, table.mean), (OTHERS, table.others)):
            chosen = max(table.own, key=known.__getitem__)
            found.append(OneSeedOutcome(table.table, name, "", 1.0, *table.regrets(chosen)))
    return found


def line(done: Sequence[OneSeedOutcome], method: str, rule: str, shares: Sequence[float]) -> str:
    """Return both regrets of a method at every budget, with standard errors over its plays."""
    cells = []
    for which in ("own", "mean"):
        for share in shares:
            values = [getattr(one, which) for one in done if (one.method, one.rule, one.share) == (method, rule, share)]
            cells.append(mean_with_error(values))
        cells.append("|")
    return f"  {f'{method} {rule}':<26}" + " ".join(cells[:-1])


def main() -> None:
    """Play everything and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--peers", nargs="*", default=list(tasking.BUDGETED))
    asked = parser.parse_args()
    games = [(name, share, seed) for name in asked.tasks for share in tables.SHARES for seed in SEEDS]
    tasks = [(*game, repeat, policy) for repeat in range(asked.repeats) for game in games for policy in POLICIES]
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        done = [one for found in pool.imap_unordered(played, tasks) for one in found]
    done += peers_played(games, asked.repeats, asked.peers)
    print(f"regret by the run itself | by its configuration's mean, at {', '.join(f'{share:g}' for share in SHARES)}")
    for policy in POLICIES:
        for rule in (BELIEVED, *RULES):
            print(line(done, policy, rule, SHARES))
    for peer in asked.peers:
        print(line(done, peer, "last", SHARES))
    for name in (MEANS, OTHERS):
        print(line(limits(games), name, "", (1.0,)))


if __name__ == "__main__":
    main()
