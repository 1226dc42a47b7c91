"""How well the prior foretells what it has not seen: each family of runs by all studies but its own.

    python -m bench.prior [--curves ../shared/curves] [--discrepancy 0.06 0.12 0.25]

The families: AllocBench's tasks at a tenth to all of their length, without AllocBench; IsoCompute's frontier and its
two ends of n, without its three models; Deep-GRPO's four group sizes on GSM8K, which no study has. Of each it prints
how many final scores lie in their 90 % interval, the mean log density of them, and the same of differences to the
family's mean, for each width of the surface that no law has.
"""

import argparse
import csv
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from bench.deciding import tables
from bench.plan_prior import OWN_BENCH, TINY, prices
from budgets.signal import BetaPassRates, signal_fraction
from planner.prior import draws
from planner.prior.comparing import interval, noise_between
from planner.prior.draws import PriorDraws, Weights
from planner.prior.laws import Circumstances, Run
from planner.prior.studies import STUDIES, WIDTHS, Values

SHARES: Final = (0.1, 0.2, 0.35, 1.0)
MEASURED: Final = 0.01  # standard deviation of a score that is read off a figure or a validation
DEEP_GRPO: Final = (40, 160, 640)  # updates of 64 prompts
NEAR: Final = 3  # validations about an update whose mean is its score


@dataclass(frozen=True)
class Family:
    """Runs of one source in the same circumstances, and what they came to."""

    name: str
    own: tuple[str, ...]  # studies that were made of it
    runs: Sequence[Run]
    steps: Sequence[int]
    scores: Sequence[float]


def main() -> None:
    """Foretell and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--curves", type=Path, default=Path("../shared/curves"))
    parser.add_argument("--discrepancy", nargs="+", type=float, default=[WIDTHS.discrepancy])
    parser.add_argument("--wider", nargs="+", type=float, default=[WIDTHS.wider_per_distance])
    given = parser.parse_args()
    families = [*allocbench(), *isocompute(), *deep_grpo(given.curves)]
    print(f"{'':>12}{'family':<28}{'runs':>5}{'in 90 %':>9}{'log score':>11}{'in 90 %':>9}{'of differences':>15}")
    for width, wider in itertools.product(given.discrepancy, given.wider):
        setattr(draws, "WIDTHS", replace(WIDTHS, discrepancy=width, wider_per_distance=wider))  # noqa: B010
        found = [judged(family) for family in families]
        for family, (held, score, apart_held, apart) in zip(families, found, strict=True):
            told = f"{held:>9.2f}{score:>11.2f}{apart_held:>9.2f}{apart:>15.2f}"
            print(f"{width:>5g}{wider:>5g}  {family.name:<28}{len(family.runs):>5}{told}")
        held, score, apart_held, apart = np.mean(found, axis=0)
        told = f"{held:>9.2f}{score:>11.2f}{apart_held:>9.2f}{apart:>15.2f}"
        print(f"{width:>5g}{wider:>5g}  {'mean of families':<33}{told}")


def judged(family: Family) -> tuple[float, float, float, float]:
    """Return the share within 90 % intervals and the log score: of the scores, and of their differences."""
    prior = PriorDraws(family.runs, without=family.own)
    weights = prior.weights
    scores, truth = prior.expected(range(len(family.runs)), family.steps).scores, np.array(family.scores)
    base = family.runs[0].circumstances.pass_rate
    noise = math.hypot(noise_between(base) / math.sqrt(2), MEASURED)
    apart = scores - scores.mean(axis=1, keepdims=True)
    return *_held(scores, truth, weights, noise), *_held(apart, truth - truth.mean(), weights, noise)


def _held(scores: Values, truth: Weights, weights: Weights, noise: float) -> tuple[float, float]:
    drawn = np.random.default_rng(0).standard_normal(scores.shape)
    low, high = np.transpose([interval(each, weights) for each in (scores + noise * drawn).T])
    densities = weights @ np.exp(-(((scores - truth) / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi))
    return float(np.mean((low <= truth) & (truth <= high))), float(np.mean(np.log(np.maximum(densities, 1e-12))))


def allocbench() -> Iterator[Family]:
    """Yield both tasks at each share of their length."""
    for name in tables.names(tables.ALLOCBENCH):
        task, _, length = name.partition("/")[2].partition("@")
        if length != "1":
            continue
        recorded, target = tables.table(name, 0)
        per_step = prices(task)
        base = fmean(run.scores[0] for run in recorded.runs)
        here = Circumstances(TINY, False, 6, base, 4096)
        cells = recorded.configurations
        runs = [Run(*each[:2], 1 - base ** each[0] - (1 - base) ** each[0], here) for each in cells]
        for share in SHARES:
            truth = recorded.truth(share * target)
            steps = [max(1, int(share * target / per_step[each[:2]])) for each in cells]
            yield Family(f"{task}, {share:g} of its length", (OWN_BENCH,), runs, steps, [truth[each] for each in cells])


def isocompute() -> Iterator[Family]:
    """Yield the readings of its figures: the frontier, and n = 8 and 512 at 4 M rollouts; B = 32, easy."""
    here = Circumstances(7.6e9, False, 8192, 0.45, 6000)
    own = tuple(study.name for study in STUDIES if study.name.startswith("IsoCompute"))
    read = {
        (12, 2.8e5): 0.54,
        (24, 8.5e5): 0.59,
        (64, 1.27e6): 0.61,
        (256, 2.7e6): 0.645,
        (512, 4e6): 0.688,
        (8, 4e6): 0.596,
    }
    pass_rates = BetaPassRates(0.45)
    runs = [Run(n, 32, signal_fraction(pass_rates, n), here) for n, _ in read]
    yield Family("IsoCompute, Qwen2.5-7B", own, runs, [int(C / n / 32) for n, C in read], list(read.values()))


def deep_grpo(folder: Path) -> Iterator[Family]:
    """Yield its four group sizes on GSM8K at some numbers of updates, where the curves are there."""
    curves = {n: _curve(folder / f"deepgrpo_gsm8k_q05b_grpo_n{n}.csv") for n in (8, 16, 32, 64)}
    if not all(curves.values()):
        return
    base = fmean(curve[0][1] for curve in curves.values())
    here = Circumstances(4.9e8, False, 1024, base, 7473)
    runs = [Run(n, 64, signal_fraction(BetaPassRates(base), n), here) for n in curves]
    for updates in DEEP_GRPO:
        if all(curve[-1][0] >= updates for curve in curves.values()):
            near = [sorted(curve, key=lambda point: abs(point[0] - updates))[:NEAR] for curve in curves.values()]
            scores = [fmean(score for _, score in points) for points in near]
            yield Family(f"Deep-GRPO, {updates} updates", (), runs, [updates] * len(runs), scores)


def _curve(path: Path) -> list[tuple[int, float]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as file:
        return [(int(row["step"]), float(row["metric"])) for row in csv.DictReader(file)]


if __name__ == "__main__":
    main()
