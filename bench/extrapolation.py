"""How well the first part of a learning curve tells its end: ours and what people use today, side by side.

    python bench/extrapolation.py DIR [--synthetic 200] [--seed 0] [--methods ours,last-value]

The real curves are the CSV files in DIR with the columns step, compute, metric (x = compute where every row has it,
else step); the synthetic ones are a seeded suite. Each method sees the points within the first 10, 25 and 50 % of the x
range and predicts the mean score over the last tenth, at its middle. That a score is a pass rate, in [0, 1], is taken
as known; other scales are divided by the 1–99 % range of the whole curve before anything is averaged. The point of our
distribution is its median. Coverage and width are of central 90 % intervals, over the curves for which a method
gave one: their number stands in the last column.
"""

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import baselines
import numpy as np
from baselines import LEVELS, Method, Prediction

from bench.synthetic import SHAPES, suite
from budgets.errors import InputError, RlplanError, UnknownNameError
from planner.curves.curve import Curve
from planner.curves.posterior import Posterior, over_chunks

FRACTIONS = (0.10, 0.25, 0.50)
FEWEST_POINTS = 3
COLUMNS = ("step", "compute", "metric")
ROUNDING = 1e-9  # an interval that has shrunk to one value, as on a dead run, holds what equals it but for rounding


@dataclass(frozen=True)
class Case:
    """What a method sees of a curve, where it must predict, what came, and by what to divide."""

    window: Curve
    at: float
    truth: float
    scale: float


@dataclass(frozen=True)
class Scores:
    """The predictions of one method for the cases of a table, scored; intervals are NaN where there are none."""

    crps: np.ndarray
    point: np.ndarray
    low: np.ndarray
    high: np.ndarray
    truth: np.ndarray
    milliseconds: float

    def intervals(self) -> str:
        """Return coverage and mean width of the intervals as cells, dashes without any."""
        known = ~np.isnan(self.low)
        if not known.any():
            return f"{'–':>6} {'–':>7}"
        low, high, truth = self.low[known], self.high[known], self.truth[known]
        slack = ROUNDING * (1 + np.abs(truth))
        return f"{np.mean((low - slack <= truth) & (truth <= high + slack)):>6.0%} {np.mean(high - low):>7.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each suite and fraction."""
    options = parse(arguments)
    try:
        methods = chosen(available(options.grid == "full"), options.methods)
        suites = {"real": read(options.directory)} if options.directory else {}
    except RlplanError as error:
        print(f"extrapolation: {error}", file=sys.stderr)
        return 2
    if options.synthetic:
        drawn = suite(np.random.default_rng(options.seed), options.synthetic / len(SHAPES))
        suites["synthetic"] = [synthetic.curve for synthetic in drawn]
    for name, curves in suites.items():
        for fraction in FRACTIONS:
            cases, skipped = windows(curves, fraction)
            results = {method: score(predict, cases) for method, predict in methods.items()} if cases else {}
            print_table(f"{name}, first {fraction:.0%}", results, len(cases), skipped)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("directory", metavar="DIR", nargs="?", type=Path, help="real curves; without it synthetic only")
    parser.add_argument(
        "--synthetic", metavar="N", type=int, default=200, help="synthetic curves (default 200; 0: none)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the synthetic suite (default 0)")
    parser.add_argument("--methods", metavar="A,B", help="only these (default: all)")
    parser.add_argument(
        "--grid", choices=("coarse", "full"), default="coarse", help="full: 7,100 fits a curve, seconds"
    )
    options = parser.parse_args(arguments)
    if options.synthetic < 0 or not (options.synthetic or options.directory):
        parser.error("nothing to do: give a directory of curves, or --synthetic with a number above 0")
    return options


def available(full_grid: bool) -> dict[str, Method]:
    """Return every method by name, ours first."""
    peers = {
        "last-value": baselines.each(baselines.last_value),
        "power-law": baselines.each(baselines.power_law),
        "scipy-sigmoid": baselines.each(baselines.sigmoid),
        "published-grid" if full_grid else "coarse-grid": baselines.each(baselines.published_grid(full_grid)),
    }
    return {"ours": ours, **peers}


def ours(curves: Sequence[Curve], at: Sequence[float]) -> list[Prediction]:
    """Predict the mean score at one compute for each curve by its posterior."""
    wanted = np.asarray(at, dtype=float)

    def quantiles(rows: slice, posterior: Posterior) -> np.ndarray:
        mixtures = posterior.predict(wanted[rows])
        return np.stack([mixtures.quantile(float(level)) for level in LEVELS], axis=1)

    rows = np.concatenate(over_chunks(curves, quantiles))
    return [Prediction(float(np.interp(0.5, LEVELS, row)), row) for row in rows]


def chosen(methods: dict[str, Method], names: str | None) -> dict[str, Method]:
    """Return the methods that were asked for."""
    if names is None:
        return methods
    for name in names.split(","):
        if name not in methods:
            raise UnknownNameError("method", name, methods)
    return {name: methods[name] for name in names.split(",")}


def read(directory: Path) -> list[Curve]:
    """Read every CSV file of a directory as a curve named for it."""
    files = sorted(directory.glob("*.csv"))
    if not files:
        raise InputError(f"no *.csv in '{directory}': give a directory of files with the columns {', '.join(COLUMNS)}")
    return [read_curve(file) for file in files]


def read_curve(file: Path) -> Curve:
    """Read one curve: x is the compute where every row has it, else the step."""
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    try:
        column = "compute" if all(row["compute"] for row in rows) else "step"
        return Curve.of(file.stem, [float(row[column]) for row in rows], [float(row["metric"]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"'{file}' must have the columns {', '.join(COLUMNS)}, with numbers: {error}") from error


def windows(curves: Sequence[Curve], fraction: float) -> tuple[list[Case], int]:
    """Cut the curves; return the cases, and how many curves had too few points for one."""
    cases = []
    for curve in curves:
        window = curve.first_fraction(fraction)
        if window.x.size >= FEWEST_POINTS:
            spread = float(np.subtract(*np.quantile(curve.y, (0.99, 0.01))))
            cases.append(Case(window, *curve.end, 1.0 if curve.bounded or not spread else spread))
    return cases, len(curves) - len(cases)


def score(predict: Method, cases: Sequence[Case]) -> Scores:
    """Run a method on all cases at once, timed, and score what it says in units of each case's scale."""
    begin = time.perf_counter()
    predictions = predict([case.window for case in cases], [case.at for case in cases])
    milliseconds = 1000 * (time.perf_counter() - begin) / len(cases)
    rows = [scored(prediction, case) for prediction, case in zip(predictions, cases, strict=True)]
    crps, point, low, high, truth = np.array(rows).T
    return Scores(crps, point, low, high, truth, milliseconds)


def scored(prediction: Prediction, case: Case) -> tuple[float, float, float, float, float]:
    """Return CRPS, point, both ends of the interval and the truth."""
    point, truth = prediction.point / case.scale, case.truth / case.scale
    if prediction.quantiles is None:
        return abs(point - truth), point, np.nan, np.nan, truth
    quantiles = prediction.quantiles / case.scale
    low, high = (float(np.interp(level, LEVELS, quantiles)) for level in (0.05, 0.95))
    # Twice the mean pinball loss over the levels (Gneiting and Ranjan 2011, equation 17).
    below = quantiles - truth
    crps = float(2 * np.mean(np.where(below >= 0, 1 - LEVELS, -LEVELS) * below))
    return crps, point, low, high, truth


def print_table(title: str, results: dict[str, Scores], count: int, skipped: int) -> None:
    """Print one row for each method."""
    print(f"\n{title}: {count} curves ({skipped} skipped with fewer than {FEWEST_POINTS} points)")
    heads = f"{'CRPS':>7} {'MAE':>7} {'median':>7} {'p90':>7} {'cover':>6} {'width':>7} {'ms':>8} {'intervals':>9}"
    print(f"{'method':<15} {heads}")
    for method, scores in results.items():
        errors = np.abs(scores.point - scores.truth)
        print(
            f"{method:<15} {scores.crps.mean():>7.4f} {errors.mean():>7.4f} {np.median(errors):>7.4f} "
            f"{np.quantile(errors, 0.9):>7.4f} {scores.intervals()} "
            f"{scores.milliseconds:>8.2f} {int((~np.isnan(scores.low)).sum()):>9}"
        )


if __name__ == "__main__":
    sys.exit(main())
