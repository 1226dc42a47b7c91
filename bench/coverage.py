"""Whether intervals hold: what is believed of runs 2 to 50 times beyond their pilots, and of those that were given up.

    python -m bench.coverage [--tables simulated held-out allocbench] [--repeats 2] [--distances 2 5 10 20 50]

Three quarters of a table's cells have a pilot up to the target over the distance; the joint belief of all at the target
is held against what their runs score there. Then the policy is played with shares of the full grid's cost: of each run
that it gave up, the interval at that moment; of all that it trained, those at the end. Of either the recommended runs,
those expected to end the highest, stand by distance and last score: their intervals are what a sweep promises.
Constants of planner/belief were chosen on the simulated tables and AllocBench's sum-easy alone ("chosen on");
the others count. Its widths are those of all families, each of them left out in turn (bench/results/decisions.md).
"""

import argparse
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bench.deciding import tables
from bench.deciding.pilots import DRAWS, Belief, belief, beliefs, with_recommended
from planner.belief.draws import JointDraws
from planner.belief.pool import Pool
from planner.policy.actions import Action, Policy, Prune
from planner.policy.policies import open_policy
from planner.replay.game import Game
from planner.replay.recorded import Recorded
from planner.view import View

DISTANCES = (2.0, 5.0, 10.0, 20.0, 50.0)
SHARES = (0.02, 0.05, 0.10, 0.20)
POINTS = 400  # of a drawn run, so that a fiftieth of it has some
BANDS = ("2 to 5 ×", 2.0, 5.0), ("5 to 10 ×", 5.0, 10.0), ("10 to 20 ×", 10.0, 20.0), ("beyond 20 ×", 20.0, np.inf)
HIGH_SCORE = 0.7  # of the last scores, from which on curves come in slowly
HEADER = f"{'':36}{'runs':>7}{'bias':>9}{'coverage':>10}{'above':>8}{'below':>8}{'width':>8}{'CRPS':>8}"


@dataclass
class _Watched:
    """A policy whose prunings are kept, each with what was known."""

    policy: Policy
    name: str
    pruned: list[tuple[Prune, View]] = field(default_factory=list)

    def decide(self, view: View) -> Sequence[Action]:
        """Decide as the policy does."""
        actions = self.policy.decide(view)
        self.pruned += [(action, view) for action in actions if isinstance(action, Prune)]
        return actions


@dataclass(frozen=True)
class Play:
    """What was believed of the runs given up, when they were, and of all that were trained, at the end."""

    pruned: list[Belief]
    ended: list[Belief]


def main() -> None:
    """Measure and print."""
    given = parsed()
    names = tables.suite_names(given.tables)
    tasks = [
        (name, repeat, tuple(given.distances), tuple(given.shares)) for repeat in range(given.repeats) for name in names
    ]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        found = list(pool.imap_unordered(measured, tasks))
    piloted = [belief for beliefs_of, _ in found for belief in beliefs_of]
    plays = [play for _, of_table in found for play in of_table]
    for family in ("chosen on", "counts"):
        print(f"\n{family}: {', '.join(sorted({one.table for one in piloted if family_of(one.table) == family}))}")
        show(family, piloted, plays, given.distances)
    if given.by_table:
        for name in sorted({one.table for one in piloted}):
            print(f"\n{name}\n{HEADER}")
            for distance in given.distances:
                line(f"  {distance:g} ×", [one for one in piloted if one.table == name and near(one, distance)])
            line("  pruned", [one for play in plays for one in play.pruned if one.table == name])


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["allocbench", "simulated", "held-out"], help="groups or tables")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--distances", nargs="+", type=float, default=list(DISTANCES))
    parser.add_argument("--shares", nargs="*", type=float, default=list(SHARES), help="of the grid; none: no plays")
    parser.add_argument("--by-table", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def measured(task: tuple[str, int, Sequence[float], Sequence[float]]) -> tuple[list[Belief], list[Play]]:
    """Measure one table."""
    name, repeat, distances, shares = task
    recorded, target = tables.table(name, repeat, POINTS)
    found = [one for distance in distances for one in beliefs(name, recorded, target, distance, repeat)]
    recorded, target = tables.table(name, repeat)
    return found, [played(name, recorded, target, share, repeat) for share in shares]


def played(table: str, recorded: Recorded, target: float, share: float, seed: int) -> Play:
    """Play the policy with a share of the full grid's cost."""
    pool = Pool()
    watched = _Watched(open_policy("rlplan", search=None, pool=pool), "rlplan")
    budget = share * recorded.full_cost(target)
    game = Game(recorded, budget=budget, target=target, seed=seed, workers=1)
    for view in game.views(watched):
        last = view
    truth = {
        number: run.score_near(target)
        for number, run in zip(last.trials, recorded.in_order(seed), strict=True)
        if run.length >= 0.9 * target
    }
    pruned = []
    for action, view in watched.pruned:
        worlds = pool.joint_draws(view, DRAWS)
        pruned += [one for trial, one in _beliefs(table, worlds, view, truth) if trial == action.trial]
    ended = [one for _, one in _beliefs(table, pool.joint_draws(last, DRAWS), last, truth)]
    return Play(pruned, with_recommended(ended))


def _beliefs(table: str, worlds: JointDraws, view: View, truth: Mapping[int, float]) -> Iterator[tuple[int, Belief]]:
    """Yield what is believed of every run that has been trained, by its trial, where its truth is known."""
    curves = np.arange(len(worlds.runs.of))
    ends = worlds.observed(worlds.runs.of, curves, np.ones((len(curves), 1)))[:, :, 0].clip(0.0, 1.0)
    for curve, number in enumerate(worlds.runs.trials):
        if number in truth:
            trial, target = view.trials[number], view.target_gpu_hours
            yield number, belief(table, trial, target, target, ends[:, curve], truth[number])


def family_of(table: str) -> str:
    """Return whether constants were chosen on a table."""
    return "chosen on" if table.startswith(("simulated/", "allocbench/sum-easy")) else "counts"


def near(one: Belief, distance: float) -> bool:
    """Whether a belief is of pilots of this distance: the last score of one lies a little before its end."""
    return distance * 0.999 <= one.distance < distance * 1.6


def show(family: str, piloted: Sequence[Belief], plays: Sequence[Play], distances: Sequence[float]) -> None:
    """Print the lines of one family."""
    own = [one for one in piloted if family_of(one.table) == family]
    print(HEADER)
    for kind in sorted({one.table.partition("/")[0] for one in own}):
        for distance in distances:
            here = [one for one in own if one.table.startswith(kind) and near(one, distance)]
            line(f"{kind}, {distance:g} ×", [one for one in here if one.seen])
            line(f"{kind}, {distance:g} ×, no pilot", [one for one in here if not one.seen])
    pruned = [one for play in plays for one in play.pruned if family_of(one.table) == family]
    ended = [one for play in plays for one in play.ended if family_of(one.table) == family]
    for kind in sorted({one.table.partition("/")[0] for one in own}):
        line(f"pruned, {kind}", [one for one in pruned if one.table.startswith(kind)])
    line("pruned, all", pruned)
    line("trained, all", ended)
    recommended = [one for one in (*own, *ended) if one.recommended and one.seen]
    for name, low, high in BANDS:
        here = [one for one in recommended if low <= one.distance < high]
        line(f"recommended, last < {HIGH_SCORE}, {name}", [one for one in here if one.last < HIGH_SCORE])
        line(f"recommended, last ≥ {HIGH_SCORE}, {name}", [one for one in here if one.last >= HIGH_SCORE])


def line(name: str, those: Sequence[Belief]) -> None:
    """Print the figures of some beliefs."""
    if not those:
        return
    expectation, low, high, crps, truth = (
        np.array([getattr(one, field) for one in those]) for field in ("expectation", "low", "high", "crps", "truth")
    )
    slack = 1e-9
    above, below = float((truth > high + slack).mean()), float((truth < low - slack).mean())
    print(
        f"{name:36}{len(those):7}{float((expectation - truth).mean()):+9.3f}{1 - above - below:10.1%}{above:8.1%}"
        f"{below:8.1%}{float((high - low).mean()):8.3f}{float(crps.mean()):8.4f}"
    )


if __name__ == "__main__":
    main()
