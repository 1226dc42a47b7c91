"""How far prices are from the steps of strangers: people whose set-ups no benchmark of a trainer has.

    python -m bench.strangers [--rows F]

Published benchmarks are tuned runs of those who made the trainer; all others' take longer, and differ more. How much of
both, `fit_strangers` learns from `bench/data/strangers.csv`, each source counting once. The table leaves each source
out of that, and has the prices of benchmarks beside it. `--rows` prices other strangers with what is shipped.
"""

import argparse
import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student_t

from bench.commands import table
from budgets.coefficients import Efficiencies, FittedFactor, shipped
from budgets.cost import Z90
from budgets.errors import InputError
from planner.price.measured_runs import measured_run

ROWS = Path(__file__).parent / "data" / "strangers.csv"
# Steps that a fit has not seen miss by a Student t: a few are far off. Four degrees of freedom are what robust fits
# take where the data cannot tell (Lange, Little and Taylor, 1989); widths are of normals with the same 90 % interval.
TAIL = student_t(4)
TAIL_WIDTH = float(TAIL.ppf(0.95)) / Z90


@dataclass(frozen=True)
class Stranger:
    """A measured step beside its price as a benchmark, as logarithms of seconds."""

    source: str
    group: str
    log_miss: float  # predicted ÷ measured
    log_sd: float  # what constants, lengths and unknown facts leave open

    def width(self, strangers: FittedFactor) -> float:
        """Return the width of its price as a stranger's."""
        return math.hypot(self.log_sd, strangers.log_sd)


def strangers(benchmarks: Efficiencies, rows: Path = ROWS) -> list[Stranger]:
    """Price the rows of a table as if the makers of their trainers had run them."""
    with rows.open(encoding="utf-8", newline="") as file:
        priced = [_stranger(row, benchmarks) for row in csv.DictReader(file)]
    return [row for row in priced if row is not None]


def _stranger(row: dict[str, str], benchmarks: Efficiencies) -> Stranger | None:
    try:
        run = measured_run(row)
    except InputError:
        return None
    if not run.seconds:
        return None
    known = run.opened(benchmarks.coefficients(run.trainer))
    log_miss = math.log(run.batch_seconds(known) / run.seconds)
    return Stranger(row["source"], row.get("group", ""), log_miss, run.cost(known).log_sd)


def fit_strangers(rows: Sequence[Stranger]) -> FittedFactor:
    """Return how many times as long as a benchmark a stranger's step takes, and how much strangers differ."""
    of_source = Counter(row.source for row in rows)
    weights = np.array([1 / of_source[row.source] for row in rows])
    misses, sds = (np.array([getattr(row, name) for row in rows]) for name in ("log_miss", "log_sd"))

    def unlikely(p: np.ndarray) -> float:
        scale = np.hypot(sds, math.exp(p[1])) / TAIL_WIDTH
        return -float(weights @ (TAIL.logpdf((misses + p[0]) / scale) - np.log(scale)))

    shift, log_width = minimize(unlikely, [0.3, math.log(0.4)], method="Nelder-Mead").x
    return FittedFactor(float(shift), math.exp(log_width), len(of_source))


def left_out_fits(rows: Sequence[Stranger]) -> dict[str, FittedFactor]:
    """Return for each source what all others say."""
    return {source: fit_strangers([row for row in rows if row.source != source]) for source in {r.source for r in rows}}


def held(rows: Sequence[Stranger], fits: Mapping[str, FittedFactor]) -> tuple[int, int]:
    """Count the steps inside their 90 % intervals, and all."""
    misses = [abs(row.log_miss + fits[row.source].log_value) / row.width(fits[row.source]) for row in rows]
    return sum(miss <= Z90 for miss in misses), len(misses)


def main() -> None:
    """Print how far strangers are off, by group, with their source left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, help="a table of other strangers; without it, sources are left out")
    arguments = parser.parse_args()
    benchmarks = replace(shipped(), strangers=FittedFactor(0.0, 0.0, 0))
    rows = strangers(benchmarks, arguments.rows or ROWS)
    fits = {row.source: shipped().strangers for row in rows}
    if arguments.rows is None:
        fits = left_out_fits(rows)
    heads = [
        "strangers",
        "rows",
        "typical miss",
        "90 % within",
        "inside the interval",
        "the interval",
        "too cheap",
        "as benchmarks",
    ]
    lines = [_line("all", rows, fits)]
    lines += [
        _line(group, [row for row in rows if row.group == group], fits) for group in sorted({r.group for r in rows})
    ]
    print(table([heads, *lines]))


def _line(name: str, rows: Sequence[Stranger], fits: Mapping[str, FittedFactor]) -> list[str]:
    misses = np.array([row.log_miss + fits[row.source].log_value for row in rows])
    ends = Z90 * np.array([row.width(fits[row.source]) for row in rows])
    outside = misses[np.abs(misses) > ends]
    typical, most = np.exp(np.quantile(np.abs(misses), [0.5, 0.9]))
    return [
        name,
        str(len(rows)),
        f"× {typical:.2f}",
        f"× {most:.2f}",
        f"{np.mean(np.abs(misses) <= ends):.0%}",
        f"× {math.exp(np.median(ends)):.2f}",
        f"{np.sum(outside < 0)} of {len(outside)} outside",
        f"× {math.exp(np.median([abs(row.log_miss) for row in rows])):.2f}",
    ]


if __name__ == "__main__":
    main()
