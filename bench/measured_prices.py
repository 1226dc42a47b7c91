"""How far prices are from measured steps whose set-up, or whose whole trainer, the constants were not fitted to."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from bench.fit_prices import LeftOut, examples, left_out, with_widths
from budgets.cost import Z90
from budgets.measured_runs import MeasuredRun

CLEAR = 1.05  # measured steps that differ by less are not ordered
PHASES = {
    "generate": ("generate_seconds",),
    "log-probabilities": ("old_logprob_seconds", "reference_seconds", "logprob_and_reference_seconds"),
    "update": ("update_seconds",),
    "weight sync": ("weight_sync_seconds",),
}


def measured_tables(rows: Path) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of `bench/cost_check.py --measured`, each with its title."""
    known = examples(rows)
    shipped = with_widths(known)
    by_setup, by_trainer = left_out(known, lambda run: run.setup), left_out(known, lambda run: run.trainer)
    # A set-up that is its trainer's only one is a trainer left out.
    seen = [each for each in by_setup if each.trainer_known]

    def log_sd(each: LeftOut) -> float:
        new = 0.0 if each.all_seen else shipped.unseen_log_sd
        scatter = shipped.known_log_sd if each.trainer_known else shipped.unknown_log_sd
        return math.sqrt(each.variance(math.hypot(scatter, new)))

    def line(what: str, rows: Sequence[LeftOut]) -> list[str]:
        misses = np.abs([each.log_miss for each in rows])
        inside = np.mean([abs(each.log_miss) <= Z90 * log_sd(each) for each in rows])
        width = math.exp(Z90 * float(np.median([log_sd(each) for each in rows])))
        typical, most = math.exp(float(np.median(misses))), math.exp(float(np.quantile(misses, 0.9)))
        return [what, str(len(rows)), f"× {typical:.2f}", f"× {most:.2f}", f"{inside:.0%}", f"× {width:.2f}"]

    heads = ["left out", "rows", "typical miss", "90 % within", "inside the 90 % interval", "the interval"]
    steps = [heads, line("the set-up", seen), line("the whole trainer", by_trainer)]
    return [
        (f"Seconds of a step, {len({each.run.setup for each in known})} set-ups", steps),
        ("Predicted ÷ measured by phase, the set-up left out", _phases(by_setup)),
        ("Pairs in the right order, the set-up left out", _orders(by_setup)),
    ]


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
