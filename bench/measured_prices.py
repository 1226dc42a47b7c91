"""How far prices are from measured steps whose workload, trainer or generation of GPUs the fit has not seen."""

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from bench.fit_prices import FORMS, SHIPPED, Example, Form, LeftOut, Widths, examples, left_out, widths
from budgets.cost import Z90
from planner.pricing.measured_runs import MeasuredRun, measured_run

BOUNDS = Path(__file__).parent / "data" / "step_bounds.csv"
CLEAR = 1.05  # measured steps that differ by less are not ordered
PHASES = {
    "generate": ("generate_seconds",),
    "log-probabilities": ("old_logprob_seconds", "reference_seconds", "logprob_and_reference_seconds"),
    "update": ("update_seconds",),
    "weight sync": ("weight_sync_seconds",),
}
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
    forms = [["form", "constants", "left out", "typical miss", "90 % within", "workloads off by (rms)"]]
    for what, by in LEFT_OUT.items():
        for form in FORMS:
            out = left_out(known, by, form)
            steps = [each for each in out if not each.example.alone]
            forms.append([form.name, str(_constants(known, form)), what, *_misses(steps), f"× {_rms(steps):.2f}"])
            if form == SHIPPED:
                alone = [each for each in out if each.example.alone]
                kinds = {"whole steps": steps, "updates alone": alone, "both": out}
                misses += [_line(what, measured, rows_of, wide) for measured, rows_of in kinds.items()]
    bounds = [["bounds", "price above", "lower end of its interval above"], [str(each) for each in bounds_broken()]]
    by_workload = left_out(known, LEFT_OUT["the workload"])
    whole = [each for each in by_workload if not each.example.alone]
    return [
        (f"Seconds of a step, {len({each.group for each in known})} workloads of trainers", misses),
        ("Other forms, whole steps", forms),
        ("Prices above the seconds that NeMo-RL's CI allows a step", bounds),
        ("Predicted ÷ measured by phase, the workload left out", _phases(whole)),
        ("Pairs in the right order, the workload left out", _orders(whole)),
    ]


def bounds_broken(rows: Path = BOUNDS) -> tuple[int, int, int]:
    """Count bounds, prices above them, and those above by more than their interval; a lower price says nothing."""
    with rows.open(encoding="utf-8", newline="") as file:
        priced = [(measured_run(row), math.log(float(row["bound_seconds"]))) for row in csv.DictReader(file)]
    above = [math.log(run.batch_seconds(run.coefficients)) - bound for run, bound in priced]
    widths_of = [Z90 * run.cost(run.coefficients).log_sd for run, _ in priced]
    clearly = sum(each > width for each, width in zip(above, widths_of, strict=True))
    return len(above), sum(each > 0 for each in above), clearly


def _constants(known: Sequence[Example], form: Form) -> int:
    return 5 + form.recompute + form.trainers * len({each.run.trainer for each in known})


def _misses(rows: Sequence[LeftOut]) -> list[str]:
    misses = np.abs([each.log_miss for each in rows])
    return [f"× {math.exp(float(np.quantile(misses, share))):.2f}" for share in (0.5, 0.9)]


def _rms(rows: Sequence[LeftOut]) -> float:
    """Return what the mean misses of the workloads come to, as a factor."""
    own: dict[object, list[float]] = {}
    for each in rows:
        own.setdefault(each.example.group, []).append(each.log_miss)
    return math.exp(math.sqrt(np.mean([np.mean(misses) ** 2 for misses in own.values()])))


def _line(what: str, measured: str, rows: Sequence[LeftOut], wide: Widths) -> list[str]:
    """Say how far rows are off, and whether the interval of their trainer's price would have held them."""
    sds = [each.log_sd(wide) for each in rows]
    inside = np.mean([abs(each.log_miss) <= Z90 * sd for each, sd in zip(rows, sds, strict=True)])
    width = math.exp(Z90 * float(np.median(sds)))
    return [what, measured, str(len(rows)), *_misses(rows), f"{inside:.0%}", f"× {width:.2f}"]


def _phases(rows: Iterable[LeftOut]) -> list[list[str]]:
    table = [["phase", "published", "median", "least", "most"]]
    for name, columns in PHASES.items():
        ratios = sorted(
            each.log_phase(column) - math.log(each.example.run.seconds_by_column[column])
            for each in rows
            for column in columns
            if column in each.example.columns
        )
        if ratios:
            ends = (float(np.median(ratios)), ratios[0], ratios[-1])
            table.append([name, str(len(ratios)), *(f"{math.exp(end):.2f}" for end in ends)])
    return table


def _orders(rows: Sequence[LeftOut]) -> list[list[str]]:
    """Count pairs of one set-up and model that differ in one thing and whose predicted order is the measured one."""

    def workload(run: MeasuredRun) -> tuple[object, ...]:
        rollouts = run.rollouts_per_prompt * run.prompts_per_update * run.traits.updates_per_batch
        return run.setup, run.workload.model.name, rollouts

    def gpus(run: MeasuredRun) -> int:
        return run.hardware.gpus_per_trial

    kinds: dict[str, Callable[[MeasuredRun, MeasuredRun], bool]] = {
        "synchronous or one step off": lambda a, b: a.traits.asynchronous != b.traits.asynchronous,
        "numbers of GPUs": lambda a, b: a.traits.asynchronous == b.traits.asynchronous and gpus(a) != gpus(b),
    }
    table = [["pairs of one workload", "that differ", "in the right order"]]
    for name, differ in kinds.items():
        right = []
        for a, b in combinations(rows, 2):
            first, second = a.example.run, b.example.run
            measured = a.example.log_measured - b.example.log_measured
            if workload(first) == workload(second) and differ(first, second) and abs(measured) > math.log(CLEAR):
                right.append((a.log_predicted - b.log_predicted) * measured > 0)
        table.append([name, str(len(right)), f"{np.mean(right):.0%}" if right else "–"])
    return table
