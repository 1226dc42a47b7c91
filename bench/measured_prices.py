"""How far prices are from measured steps whose workload, trainer or generation of GPUs the fit has not seen."""

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from bench.fit_prices import Example, LeftOut, Widths, examples, left_out, widths
from budgets.cost import Z90
from planner.price.measured_runs import measured_run

BOUNDS = Path(__file__).parent / "data" / "step_bounds.csv"
GENERATIONS = {"a6000": "Ampere", "a100-80": "Ampere", "b200": "Blackwell", "gb200": "Blackwell"}  # else Hopper
LEFT_OUT: dict[str, Callable[[Example], str]] = {
    "the workload": lambda each: each.workload,
    "the whole trainer": lambda each: each.run.trainer,
    "the GPUs' generation": lambda each: GENERATIONS.get(each.run.hardware.gpu.name, "Hopper"),
}


def measured_tables(rows: Path) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of `bench/cost_check.py --measured`, each with its title."""
    known = examples(rows)
    wide = widths(known)
    misses = [["left out", "measured", "rows", "typical miss", "90 % within", "inside the interval", "the interval"]]
    by_group = {what: left_out(known, by) for what, by in LEFT_OUT.items()}
    for what, rows_of in by_group.items():
        steps = [each for each in rows_of if not each.example.alone]
        alone = [each for each in rows_of if each.example.alone]
        for measured, some in (("whole steps", steps), ("updates alone", alone), ("both", rows_of)):
            misses.append(_line(what, measured, some, wide))
    bounds = [["bounds", "price above", "lower end of its interval above"], [str(each) for each in bounds_broken()]]
    return [
        (f"Seconds of a step, {len({each.group for each in known})} workloads of trainers", misses),
        ("Prices above the seconds that NeMo-RL's CI allows a step", bounds),
    ]


def bounds_broken(rows: Path = BOUNDS) -> tuple[int, int, int]:
    """Count bounds, prices above them, and those above by more than their interval; a lower price says nothing."""
    with rows.open(encoding="utf-8", newline="") as file:
        priced = [(measured_run(row), math.log(float(row["bound_seconds"]))) for row in csv.DictReader(file)]
    above = [math.log(run.batch_seconds(run.coefficients)) - bound for run, bound in priced]
    widths_of = [Z90 * run.cost(run.coefficients).log_sd for run, _ in priced]
    clearly = sum(each > width for each, width in zip(above, widths_of, strict=True))
    return len(above), sum(each > 0 for each in above), clearly


def _misses(rows: Sequence[LeftOut]) -> list[str]:
    misses = np.abs([each.log_miss for each in rows])
    return [f"× {math.exp(float(np.quantile(misses, share))):.2f}" for share in (0.5, 0.9)]


def _line(what: str, measured: str, rows: Sequence[LeftOut], wide: Widths) -> list[str]:
    """Say how far rows are off, and whether the interval of their trainer's price would have held them."""
    sds = [each.log_sd(wide) for each in rows]
    inside = np.mean([abs(each.log_miss) <= Z90 * sd for each, sd in zip(rows, sds, strict=True)])
    width = math.exp(Z90 * float(np.median(sds)))
    return [what, measured, str(len(rows)), *_misses(rows), f"{inside:.0%}", f"× {width:.2f}"]
