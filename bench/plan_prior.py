"""What it is worth to a sweep to know its plan: the same sweeps played with and without the plan's prior.

    python -m bench.plan_prior [--budget 5000] [--fractions 0.1 0.4] [--draws 16] [--laws plan another mirrored]
    python -m bench.plan_prior --laws recorded [--fractions 0.02 0.1] [--draws 2]

`plan` draws each world from the mixture that the plan ranks by, which is the best case. `another` takes the study that
a world is drawn from out of the mixture, for the ranking and for the sweep: what they know is another law than the one
that holds. `mirrored` exchanges small n and large n in the worlds alone. Of each it prints how much higher the final
run ends than the plan's first row with the whole budget, and what `propose` expects of that share. `recorded` plays
AllocBench's tables, with shares of the full grid's cost, told by all studies but AllocBench itself; what it prints is
the regret, of the plan's first row too.
"""

import argparse
import csv
import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, stdev
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bench.deciding import tables
from planner.config import build_request, flag_layer, resolve
from planner.pooling.pool import Pool
from planner.prior.draws import Weights
from planner.prior.laws import Circumstances, Run
from planner.prior.plan_prior import Priced, prior_of_plan
from planner.prior.studies import STUDIES
from planner.proposals.request import Request
from planner.replaying.choosing import open_chooser
from planner.replaying.play import Played, play
from planner.replaying.recorded import Recorded
from planner.sweeping.policies import open_policy
from planner.view import Cell, Configuration, PlanPrior
from rlplan.actions.preview_plan import Split, setting_of, splits_of
from runner.simulation.drawn import DrawnCell, DrawnWorld, Setting

NAMES: Final = [study.name for study in STUDIES]
OWN_BENCH: Final = "AllocBench, tiny models on sums"
LEAST_WEIGHT: Final = 0.03  # of a study that worlds are drawn from alone
KNOWING: Final = {"curves alone": False, "with the plan": True}
TINY: Final = 335_424  # parameters of AllocBench's model


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--budget", type=float, default=5000.0)
    parser.add_argument("--fractions", nargs="+", type=float, default=[0.1, 0.4])
    parser.add_argument("--draws", type=int, default=16)
    parser.add_argument("--laws", nargs="+", default=["plan", "another", "mirrored"])
    given = parser.parse_args()
    for law in given.laws:
        if law == "recorded":
            _print_recorded(given.fractions, given.draws)
        else:
            _print_drawn(law, given.budget, given.fractions, given.draws)


def _print_drawn(law: str, budget: float, fractions: Sequence[float], draws: int) -> None:
    request = build_request(resolve(flag_layer({"budget.gpu_hours": ("--budget", budget)})))
    splits, _ = splits_of(request, (0.0, *fractions))
    without, piloted = splits[0].proposal, splits[1:]
    gains: dict[tuple[float, str], list[float]] = {}
    for number in range(draws):
        world, known, weights = drawn(law, setting_of(request, splits), number)
        whole = world.truth(budget)
        first = max(without.candidates, key=lambda each: float(known @ each.cell.scores))
        for split in piloted:
            truth = world.truth(split.proposal.final_gpu_hours)
            for name, knows in KNOWING.items():
                chosen = _swept(split, world, weights if knows else None, request, number).chosen
                gains.setdefault((split.fraction, name), []).append(truth[chosen] - whole[first.cell.configuration])
    print(f"{law}: {draws} worlds of {budget:,.0f} GPU-hours, over the first row without pilots")
    for split in piloted:
        sharing = split.proposal.sharing
        told = [f"{name} {_estimate(gains[split.fraction, name])}" for name in KNOWING]
        expected = f"{sharing.expected_score - sharing.score_without:+.4f}"
        print(f"  {split.fraction:4.0%}  {', '.join(told)}; expected {expected}", flush=True)


def drawn(law: str, setting: Setting, number: int) -> tuple[DrawnWorld, Weights, Sequence[float]]:
    """Return a world, and the weights of draws and of studies as far as the plan and the sweep know them."""
    weights, shares = setting.weights, np.bincount(setting.study, weights=setting.weights)
    if law == "mirrored":
        setting = replace(setting, cells=_mirrored(setting.cells))
    if law != "another":
        return DrawnWorld(setting, 0, number), weights, shares.tolist()
    likely = np.flatnonzero(shares > LEAST_WEIGHT)
    own = setting.study == likely[number % len(likely)]
    rest = np.where(own, 0.0, weights) / weights[~own].sum()
    world = DrawnWorld(replace(setting, weights=np.where(own, weights, 0.0)), 0, number)
    return world, rest, np.bincount(setting.study, weights=rest).tolist()


def _mirrored(cells: Sequence[DrawnCell]) -> tuple[DrawnCell, ...]:
    """Give each cell the curves of the one that has as much larger an n as its own is small, by GPU-hours."""
    by_cell = {each.configuration: each for each in cells}
    sizes = sorted({each.rollouts_per_prompt for each in cells})
    other = dict(zip(sizes, reversed(sizes), strict=True))

    def turned(cell: DrawnCell) -> DrawnCell:
        there = by_cell.get(Configuration(other[cell.rollouts_per_prompt], cell.prompts_per_batch), cell)
        faster = _rollouts_an_hour(cell) / _rollouts_an_hour(there)
        rollouts = there.slower * there.most_steps * there.rollouts_per_prompt * there.prompts_per_batch
        own = cell.most_steps * cell.rollouts_per_prompt * cell.prompts_per_batch
        return replace(cell, scores=there.scores, slower=rollouts * faster / own)

    return tuple(map(turned, cells))


def _rollouts_an_hour(cell: DrawnCell) -> float:
    return cell.rollouts_per_prompt * cell.prompts_per_batch / cell.gpu_hours_per_step


def _swept(split: Split, world: DrawnWorld, weights: Sequence[float] | None, request: Request, seed: int) -> Played:
    told = None if weights is None or split.plan_prior is None else replace(split.plan_prior, weights=tuple(weights))
    workers = max(1, request.hardware.gpus // request.hardware.gpus_per_trial)
    pool, proposal = Pool(), split.proposal
    return play(
        world.recorded,
        open_policy("rlplan", search=None, pool=pool),
        budget=proposal.pilot_gpu_hours,
        target=proposal.final_gpu_hours,
        seed=seed,
        workers=workers,
        chooser=open_chooser("rlplan", pool),
        trace=False,
        pilots=split.pilots(),
        idle_gpu_hours=split.idle_gpu_hours(workers),
        plan_prior=told,
    )


@dataclass(frozen=True)
class RecordedTable:
    """A table, and what a plan expects of it."""

    name: str
    recorded: Recorded
    target: float
    told: PlanPrior

    def regret(self, configuration: Configuration) -> float:
        """Return what a configuration falls short of the best."""
        truth = self.recorded.truth(self.target)
        return max(truth.values()) - truth[configuration]

    @property
    def first(self) -> Configuration:
        """The plan's first row."""
        gains, weights = self.told.gains, self.told.weights
        return max(gains, key=lambda each: float(np.dot(weights, [along[-1] for along in gains[each]])))


def _print_recorded(shares: Sequence[float], repeats: int) -> None:
    found = list(recorded_tables())
    print(f"recorded: regret over {len(found)} tables of AllocBench, {repeats} plays each")
    print(f"  the plan's first row {_estimate([table.regret(table.first) for table in found])}")
    for share in shares:
        told = []
        for name, knows in KNOWING.items():
            regrets = [_replayed(table, share, repeat, knows=knows) for table in found for repeat in range(repeats)]
            told.append(f"{name} {_estimate(regrets)}")
        print(f"  {share:4.0%}  {', '.join(told)}", flush=True)


def _replayed(table: RecordedTable, share: float, seed: int, *, knows: bool) -> float:
    pool = Pool()
    played = play(
        table.recorded,
        open_policy("rlplan", search=None, pool=pool),
        budget=share * table.recorded.full_cost(table.target),
        target=table.target,
        seed=seed,
        chooser=open_chooser("rlplan", pool),
        trace=False,
        plan_prior=table.told if knows else None,
    )
    return played.regret


def recorded_tables() -> Iterator[RecordedTable]:
    """Yield AllocBench's tables, each told by all studies but its own."""
    for name in tables.names(tables.ALLOCBENCH):
        recorded, target = tables.table(name, 0)
        per_step = prices(name.partition("/")[2].partition("@")[0])
        base = fmean(run.scores[0] for run in recorded.runs)
        here = Circumstances(TINY, False, 6, base, 4096)
        priced = (
            Priced(each, Run(*each[:2], 1 - base ** each[0] - (1 - base) ** each[0], here), per_step[each[:2]])
            for each in recorded.configurations
        )
        told = prior_of_plan(priced, target)
        assert told is not None
        others = [0.0 if study == OWN_BENCH else weight for study, weight in zip(NAMES, told.weights, strict=True)]
        yield RecordedTable(name, recorded, target, replace(told, weights=tuple(each / sum(others) for each in others)))


def prices(task: str) -> Mapping[Cell, float]:
    """Return the GPU-hours of a step of each cell, as its runs took on average."""
    with gzip.open(tables.DATA / f"allocbench-{task}.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if int(row["step"] or 0) > 0]
    of = sorted(
        (int(row["rollouts_per_prompt"]), int(row["prompts_per_batch"]), float(row["gpu_hours"]) / int(row["step"]))
        for row in rows
    )
    return {cell: fmean(row[2] for row in group) for cell, group in groupby(of, key=lambda row: row[:2])}


def _estimate(values: Sequence[float]) -> str:
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{fmean(values):+.4f} ± {error:.4f}"


if __name__ == "__main__":
    main()
