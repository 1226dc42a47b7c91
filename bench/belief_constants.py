"""What the belief's other constants rest on: how runs end beyond their pilots, under each at half and twice its value.

    python -m bench.belief_constants [--repeats 1] [--worlds 14]

Departures are scored where three quarters of a table's cells have a pilot to a fifth and to a twentieth of the target,
what a plan says where a quarter has: on AllocBench told by all studies but its own, and on worlds that are drawn from a
study which the plan does not know. The log score of a run's end is that of draws that are each a normal 0.01 wide.
Printed are differences to today's value in nats a run, over families (tables of one task, generator or study, which
count once), coverage of 90 % intervals, and what is gained in each family with the value that is best in the others.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bench.covering.pilots import UNSEEN, piloted
from bench.deciding import tables
from bench.plan_prior import NAMES, drawn, recorded_tables
from planner.config import build_request, flag_layer, resolve
from planner.pooling import draws, surface
from planner.pooling.pool import joint_of
from planner.view import View
from rlplan.actions.preview_plan import setting_of, splits_of

DISTANCES: Final = (5.0, 20.0)
WIDTH: Final = 0.01  # of a draw, of score
DRAWS: Final = 1000
POINTS: Final = 400  # of a drawn run
OF_A_PLAN: Final = 0.75  # of the cells have no pilot: where what a plan says counts
BUDGET: Final = 5000.0
DEPARTURES: Final = {"SHARED_DEPARTURE": (0.0, 0.006, 0.012, 0.024), "OWN_DEPARTURE": (0.0, 0.25, 0.5, 1.0)}
SURFACE: Final = {
    "TRUST_SD": (0.2, 0.4, 0.8),
    "PLAN_WEIGHT": (0.25, 0.5, 0.9),
    "FREEDOM": (0.25, 0.5, 1.0),
    "GAIN_ERROR": (0.0025, 0.005, 0.01),
}


@dataclass(frozen=True)
class Case:
    """Pilots, and how all runs ended."""

    family: str
    view: View
    ends: Mapping[int, float]


Scores = dict[str, tuple[float, float]]  # of each family: log score, coverage


def tabled(repeats: int) -> Iterator[Case]:
    """Yield tables whose pilots end far before their targets."""
    for name in tables.suite_names([tables.LIMITED, tables.LIMITED_UNSEEN, tables.NEW_TASKS, tables.SIMULATED]):
        for repeat in range(repeats):
            recorded, target = tables.table(name, repeat, POINTS)
            for distance in DISTANCES:
                view, ends = piloted(name, recorded, target, distance, repeat, UNSEEN)
                if any(trial.scores for trial in view.trials.values()):
                    yield Case(name.partition("/")[2].partition("@")[0], view, ends)


def planned(worlds: int) -> Iterator[Case]:
    """Yield pilots of plans: of AllocBench, and of worlds by a study that the plan does not know."""
    for table in recorded_tables():
        for distance in DISTANCES:
            view, ends = piloted(table.name, table.recorded, table.target, distance, 0, OF_A_PLAN)
            if any(trial.scores for trial in view.trials.values()):
                family = table.name.partition("/")[2].partition("@")[0]
                yield Case(family, replace(view, plan_prior=table.told), ends)
    request = build_request(resolve(flag_layer({"budget.gpu_hours": ("--budget", BUDGET)})))
    splits, _ = splits_of(request, (0.0, 0.1))
    setting, target = setting_of(request, splits), splits[1].proposal.final_gpu_hours
    for number in range(worlds):
        world, _, weights = drawn("another", setting, number)
        unknown = NAMES[int(np.flatnonzero(np.array(weights) == 0)[0])]
        told = splits[1].plan_prior
        assert told is not None
        for distance in DISTANCES:
            view, ends = piloted(unknown, world.recorded, target, distance, number, OF_A_PLAN)
            if any(trial.scores for trial in view.trials.values()):
                yield Case(unknown, replace(view, plan_prior=replace(told, weights=tuple(weights))), ends)


def scored(cases: Sequence[Case], module: ModuleType, name: str, value: float) -> Scores:
    """Return the scores of all families with one constant at a value."""
    before = getattr(module, name)
    setattr(module, name, value)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for case in cases:
        worlds = joint_of(case.view, DRAWS)
        for number, end in case.ends.items():
            drawn_ends = worlds.at_target[:, worlds.place[case.view.trials[number].configuration]]
            density = np.exp(-(((drawn_ends - end) / WIDTH) ** 2) / 2).mean() / (WIDTH * np.sqrt(2 * np.pi))
            low, high = np.quantile(drawn_ends, (0.05, 0.95))
            found[case.family].append((float(np.log(max(density, 1e-6))), float(low <= end <= high)))
    setattr(module, name, before)
    return {family: (float(mean[0]), float(mean[1])) for family, each in found.items() if len(mean := np.mean(each, 0))}


def report(cases: Sequence[Case], module: ModuleType, constants: Mapping[str, Sequence[float]]) -> None:
    """Print a line for each value, and what choosing it by other families gains."""
    print(f"{len(cases)} beliefs of {len({case.family for case in cases})} families")
    for name, values in constants.items():
        by_value = {value: scored(cases, module, name, value) for value in values}
        now = getattr(module, name)
        families = list(by_value[now])
        for value, scores in by_value.items():
            gains = np.array([scores[family][0] - by_value[now][family][0] for family in families])
            held = np.mean([scores[family][1] for family in families])
            error = gains.std(ddof=1) / len(gains) ** 0.5
            print(f"{name:18}{value:>8g}{gains.mean():+9.4f} ± {error:.4f}   holds {held:.1%}", flush=True)
        print(f"{'':18}chosen by the others {_held_out(by_value, now, families)}")


def _held_out(by_value: Mapping[float, Scores], now: float, families: Sequence[str]) -> str:
    gains = []
    for family in families:
        others = [each for each in families if each != family]
        best = max(by_value, key=lambda value: float(np.mean([by_value[value][each][0] for each in others])))
        gains.append(by_value[best][family][0] - by_value[now][family][0])
    return f"{np.mean(gains):+.4f} ± {np.std(gains, ddof=1) / len(gains) ** 0.5:.4f}"


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=14, help="drawn from studies that the plan does not know")
    given = parser.parse_args()
    report(list(planned(given.worlds)), surface, SURFACE)
    report(list(tabled(given.repeats)), draws, DEPARTURES)


if __name__ == "__main__":
    main()
