"""What the belief's widths rest on: how likely complete tables are under them, and under others.

    python -m bench.widths [--factors 0.6 1.6]

Every configuration's first run is fitted up to the target, and each width of `planner/pooling` (features.py, model.py)
is changed by each factor in turn. Printed is by how much the log evidence changes, in nats, summed over families
(tables of one task or generator, which count once), the lowest and the highest sum with one family left out, and the
families on whose evidence it rises and falls the most. A width is where it should be if all sums are below 0.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import logsumexp

from bench.covering.pilots import scores_until
from bench.deciding import tables
from planner.pooling import features, model
from planner.pooling.points import Points, binned, stacked
from planner.view import Configuration

LOCALS = ("logit A", "log C_mid", "log s")
WIDTHS = ("SLOPES", "CURVATURES", "CURVATURE_MEANS", "PRODUCTS", "OF_A_NAME")
LIMITS = ("@0.2", "@1")  # of the limited tables
MOST_SCORES = 40  # of a run

Table = tuple[list[Configuration], Points]


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--factors", nargs="+", type=float, default=[0.6, 1.6])
    given = parser.parse_args()
    complete = {name: fitted(name) for name in chosen()}
    now = evidence(complete)
    print(f"{'':44}{'sum':>8}{'one left out':>18}  most and least")
    for name, local, factor in changes(given.factors):
        there = evidence(complete, (name, local, factor))
        gains = {family: there[family] - now[family] for family in now}
        total, order = sum(gains.values()), sorted(gains, key=lambda family: gains[family])
        left_out = [total - gain for gain in gains.values()]
        ends = ", ".join(f"{family} {gains[family]:+.1f}" for family in (order[-1], order[0]))
        told = f"{name}, {LOCALS[local]}, × {factor:g}"
        print(f"{told:44}{total:+8.1f}{min(left_out):+9.1f}{max(left_out):+9.1f}  {ends}", flush=True)


def chosen() -> list[str]:
    """Return tables whose curves are there to their targets, those that end before they have bent among them."""
    limited = tables.suite_names([tables.LIMITED, tables.LIMITED_UNSEEN])
    return [*(name for name in limited if name.endswith(LIMITS)), *tables.suite_names([tables.NEW_TASKS])]


def fitted(name: str) -> Table:
    """Return a table's configurations, and the first run of each up to the target."""
    recorded, target = tables.table(name, 0)
    first = {run.configuration: run for run in reversed(recorded.runs)}
    curves = [binned(scores_until(run, target, MOST_SCORES)) for run in first.values()]
    return list(first), stacked(curves, target)


def changes(factors: list[float]) -> Iterator[tuple[str, int, float]]:
    """Yield what is changed: the width's name, which of the three parameters it is of, and by what."""
    for name in WIDTHS:
        for local, width in enumerate(getattr(features, name)):
            yield from ((name, local, factor) for factor in factors if width)
    yield from (("SCATTER", local, factor) for local in range(len(LOCALS)) for factor in factors)


def evidence(complete: dict[str, Table], change: tuple[str, int, float] | None = None) -> dict[str, float]:
    """Return the log evidence of each family's tables, the mean over them, with one width changed."""
    name, local, factor = change or ("SCATTER", 0, 1.0)
    module = model if name == "SCATTER" else features
    before = getattr(module, name)
    changed = [width * (factor if place == local else 1.0) for place, width in enumerate(before)]
    setattr(module, name, np.array(changed) if name == "SCATTER" else tuple(changed))
    found = defaultdict(list)
    for table, (configurations, points) in complete.items():
        design = features.features(configurations)
        fit = model.JointModel(design, points, np.arange(len(configurations))).fit()
        family = table.partition("/")[2].partition("@")[0]
        found[family].append(float(logsumexp(fit.log_evidence) - np.log(design.sd).sum()))
    setattr(module, name, before)
    return {family: float(np.mean(those)) for family, those in found.items()}


if __name__ == "__main__":
    main()
