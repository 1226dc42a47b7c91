"""How far prices are off once ten steps of one run are known: another run of its set-up and model is then priced.

The prior is the fit that has not seen the set-up. A row calibrates by what was published of it, the seconds of its step
and of its phases, as ten steps of a log would.
"""

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np

from bench.fit_prices import examples, fit, widths
from budgets.calibration import MeasuredStep, calibrate
from budgets.coefficients import Coefficients
from budgets.cost import Z90, StepCost
from budgets.errors import InputError
from planner.price.measured_runs import PHASE_COLUMNS, MeasuredRun, measured_run

STEPS = 10
CLEAR = 1.05  # measured steps that differ by less are not ordered


@dataclass(frozen=True)
class Pair:
    """A run that is priced once another of its set-up and model has calibrated."""

    known: MeasuredRun
    priced: MeasuredRun
    before: StepCost
    after: StepCost
    of_known: StepCost  # after

    @property
    def kind(self) -> str:
        """The one thing by which the two differ that is asked about."""
        one, other = self.known, self.priced
        gpus = one.hardware.gpus_per_trial != other.hardware.gpus_per_trial
        if one.traits.asynchronous != other.traits.asynchronous:
            return "synchronous or one step off" + (", other GPUs too" if gpus else "")
        if gpus:
            return "numbers of GPUs"
        return "n, B" if _batch(one) != _batch(other) else SAME

    @property
    def lengths_known(self) -> bool:
        """Whether the mean responses of both are; else both are taken to be what is expected."""
        return not (self.known.length_log_sd or self.priced.length_log_sd)

    def miss(self, cost: StepCost) -> float:
        """Return the logarithm of predicted ÷ measured."""
        return math.log(cost.step_seconds / _seconds(self.priced))

    @property
    def ordered(self) -> bool | None:
        """Whether the slower of the two is priced so; None where they hardly differ."""
        measured = math.log(_seconds(self.priced) / _seconds(self.known))
        if abs(measured) <= math.log(CLEAR) or _batch(self.known) != _batch(self.priced):
            return None
        return measured * math.log(self.after.step_seconds / self.of_known.step_seconds) > 0


SAME = "nothing that a price knows"
KINDS = ("numbers of GPUs", "synchronous or one step off", "synchronous or one step off, other GPUs too", "n, B", SAME)


def calibrated_tables(rows: Path) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of pairs of runs, each with its title."""
    found = list(pairs(rows))
    heads = ["they differ in", "mean response", "pairs", "typical miss before", "after"]
    misses = [[*heads, "90 % within", "inside the 90 % interval", "the interval"]]
    orders = [["they differ in", "mean response", "that differ by 5 %", "in the right order"]]

    def add(what: str, chosen: Callable[[Pair], bool]) -> None:
        for known, told in ((True, "published"), (False, "not published")):
            mine = [each for each in found if each.lengths_known == known and chosen(each)]
            if mine:
                misses.append([what, told, *_misses(mine)])
            right = [each.ordered for each in mine if each.ordered is not None]
            if right and what != SAME:
                orders.append([what, told, str(len(right)), f"{np.mean(right):.0%}"])

    for kind in KINDS:
        add(kind, lambda each, kind=kind: each.kind == kind)
    add("any of these but the last", lambda each: each.kind != SAME)
    return [
        (f"Seconds of a step, {STEPS} steps of another run of the set-up being known", misses),
        (f"Pairs in the right order, {STEPS} steps of the one being known", orders),
    ]


def pairs(rows: Path) -> Iterable[Pair]:
    """Yield every ordered pair of runs of one set-up and model, the first of which calibrates."""
    known = examples(rows)
    wide = widths(known)
    runs = _runs(rows)
    for setup in sorted({run.setup for run in runs}):
        own = [run for run in runs if run.setup == setup]
        if len(own) < 2:
            continue
        rest = wide.widen(fit([each for each in known if each.run.setup != setup]))
        for one, other in permutations(own, 2):
            if one.workload.model.name == other.workload.model.name:
                yield _pair(one, other, rest.coefficients(one.trainer))


def _pair(one: MeasuredRun, other: MeasuredRun, before: Coefficients) -> Pair:
    before = replace(before, length_log_sd=one.length_log_sd)
    step = measured_step(one, before)
    after = calibrate(one.workload, one.hardware.gpu, [step] * STEPS, before).coefficients
    if not one.length_log_sd:
        after = replace(after, length_log_sd=0.0)  # that of the other is published too
    return Pair(one, other, other.cost(before), other.cost(after), one.cost(after))


def measured_step(run: MeasuredRun, known: Coefficients) -> MeasuredStep:
    """Return a row of a table as one update of a log."""
    updates, rollouts = run.traits.updates_per_batch, run.rollouts_per_prompt * run.prompts_per_update
    timed = {PHASE_COLUMNS[column]: seconds / updates for column, seconds in run.seconds_by_column.items()}
    return MeasuredStep(
        rollouts_per_prompt=run.rollouts_per_prompt,
        placement=run.cost(known).placement,
        traits=run.traits,
        generated_rollouts=rollouts,
        trained_rollouts=rollouts,
        mean_prompt_tokens=run.workload.prompt_tokens,
        mean_response_tokens=run.workload.responses.mean,
        response_known=not run.length_log_sd,
        seconds={phases[0]: seconds for phases, seconds in timed.items() if len(phases) == 1},
        together={phases: seconds for phases, seconds in timed.items() if len(phases) > 1},
        whole=_seconds(run),
    )


def _misses(found: Sequence[Pair]) -> list[str]:
    before, after = (np.abs([each.miss(cost) for each, cost in costs]) for costs in _both(found))
    inside = np.mean([abs(each.miss(each.after)) <= Z90 * each.after.log_sd for each in found])
    width = math.exp(Z90 * float(np.median([each.after.log_sd for each in found])))
    typical = [f"× {math.exp(float(np.median(misses))):.2f}" for misses in (before, after)]
    most = f"× {math.exp(float(np.quantile(after, 0.9))):.2f}"
    return [str(len(found)), *typical, most, f"{inside:.0%}", f"× {width:.2f}"]


def _both(found: Sequence[Pair]) -> tuple[list[tuple[Pair, StepCost]], list[tuple[Pair, StepCost]]]:
    return [(each, each.before) for each in found], [(each, each.after) for each in found]


def _runs(rows: Path) -> list[MeasuredRun]:
    with rows.open(encoding="utf-8", newline="") as file:
        return [run for row in csv.DictReader(file) if row["precision"] != "fp8" and (run := _read(row)) is not None]


def _read(row: dict[str, str]) -> MeasuredRun | None:
    try:
        run = measured_run(row)
        return run if run.seconds and run.cost() else None
    except InputError:
        return None


def _seconds(run: MeasuredRun) -> float:
    """Return the measured seconds of one update."""
    assert run.seconds is not None
    return run.seconds / run.traits.updates_per_batch


def _batch(run: MeasuredRun) -> tuple[int, int]:
    return run.rollouts_per_prompt, run.prompts_per_update * run.traits.updates_per_batch
