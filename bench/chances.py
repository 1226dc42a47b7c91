"""Whether chances hold: how often the likeliest is the best after a play, and the recommended one within 0.02 of it.

    python -m bench.chances [--tables limited limited-unseen public] [--repeats 2] [--shares 0.05 0.1 0.2 0.5]

What counts is what is promised: of a configuration with a run, that run at the target, of another its mean. A table
knows both by a few validations, and the best of many is often so by their noise: the draws are given that noise before
they are counted. Tables of one task or generator are a family; families count alike, and errors are over them.
"""

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bench.deciding import ours, tables
from bench.deciding.statistics import estimated
from planner.belief.draws import JointDraws, shares_of_best
from planner.belief.pool import Pool
from planner.curves.curve import Vector
from planner.metrics import EQUIVALENCE_MARGIN
from planner.recommend.prospect import DRAWS
from planner.replay.recorded import AROUND, Recorded, RecordedRun
from planner.view import View, has_curve

SHARES = (0.05, 0.1, 0.2, 0.5)
BANDS = ((0.4, 0.6), (0.7, 0.9), (0.9, 1.01))  # of P(within 0.02): about 0.5, 0.8 and 0.95


@dataclass(frozen=True)
class Judged:
    """A chance that was stated after a play, and whether it came so."""

    table: str
    share: float
    stated: float
    came: bool

    @property
    def family(self) -> str:
        """The task or the generator."""
        return self.table.partition("/")[2].partition("@")[0]


def main() -> None:
    """Play, judge and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["limited", "limited-unseen", "public"], help="groups or tables")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES), help="of the full grid's cost")
    given = parser.parse_args()
    best: list[Judged] = []
    near: list[Judged] = []
    for name in tables.suite_names(given.tables):
        for repeat in range(given.repeats):
            for share in given.shares:
                one, other = judged(name, repeat, share)
                best.append(one)
                near.append(other)
    print(f"{'P(best) of the likeliest':34}{'stated':>8}{'came':>8}{'±':>8}{'ratio':>8}{'plays':>8}")
    line("all", best)
    for share in given.shares:
        line(f"  with {share:.0%} of the grid's cost", [one for one in best if one.share == share])
    for family in sorted({one.family for one in best}):
        line(f"  {family}", [one for one in best if one.family == family])
    print("P(within 0.02) of the recommended one")
    line("all", near)
    for low, high in BANDS:
        line(f"  from {low:g} to {min(high, 1):g}", [one for one in near if low <= one.stated < high])


def judged(name: str, repeat: int, share: float) -> tuple[Judged, Judged]:
    """Play one table and judge the chance of the likeliest to be the best, and of the first to be within 0.02."""
    recorded, target = tables.table(name, repeat)
    budget = share * recorded.full_cost(target)
    policy = ours.opened(ours.RLPLAN)
    _, view = ours.seen_to_the_end(*policy, recorded, budget=budget, target=target, seed=repeat, workers=1)
    worlds = Pool().joint_draws(view, DRAWS)
    came, errors = truth(recorded, target, view, worlds)
    noise = np.random.default_rng([repeat, *name.encode()]).standard_normal(worlds.at_target.shape)
    draws = worlds.at_target + errors * noise
    best = shares_of_best(draws)
    likeliest, first = int(np.argmax(best)), int(np.argmax(worlds.at_target.mean(axis=0)))
    near = float((draws[:, first] >= draws.max(axis=1) - EQUIVALENCE_MARGIN).mean())
    return (
        Judged(name, share, float(best[likeliest]), bool(came[likeliest] == came.max())),
        Judged(name, share, near, bool(came[first] >= came.max() - EQUIVALENCE_MARGIN)),
    )


def truth(recorded: Recorded, target: float, view: View, worlds: JointDraws) -> tuple[Vector, Vector]:
    """Return what each configuration's run, or else its mean, scored at the target, and the errors of that."""
    runs = dict(zip(view.trials, recorded.in_order(view.seed), strict=True))
    means = recorded.truth(target)
    counted = {each: [run for run in recorded.runs if run.configuration == each] for each in worlds.configurations}
    scores = {each: means[each] for each in worlds.configurations}
    for trial in sorted((each for each in view.trials.values() if has_curve(each)), key=lambda each: each.step):
        counted[trial.configuration] = [runs[trial.trial]]  # of several the longest
        scores[trial.configuration] = runs[trial.trial].score_near(target)
    errors = [np.hypot.reduce([_error(run, target) for run in those]) / len(those) for those in counted.values()]
    return np.array(list(scores.values())), np.array(errors)


def _error(run: RecordedRun, target: float) -> float:
    """Return the standard error of what a run scored near the target."""
    if run.standard_errors is None:
        return 0.0
    away = np.abs(run.gpu_hours - target)
    near = run.standard_errors[away <= max(AROUND * target, float(away.min()))]
    return float(np.hypot.reduce(near)) / len(near)


def line(name: str, those: Sequence[Judged]) -> None:
    """Print how chances were stated, and how they came."""
    if those:
        stated, came = (_mean(those, values) for values in ([one.stated for one in those], [one.came for one in those]))
        gap = estimated([(one.family, one.stated - one.came) for one in those])
        ratio = f"{stated / came:.2f}" if came else "-"
        print(f"{name:34}{stated:8.3f}{came:8.3f}{gap.over_tables:8.3f}{ratio:>8}{len(those):8}")


def _mean(those: Sequence[Judged], values: Iterable[float]) -> float:
    return estimated([(one.family, float(value)) for one, value in zip(those, values, strict=True)]).mean


if __name__ == "__main__":
    main()
