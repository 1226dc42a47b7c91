"""Fits the cost model's constants to measured steps of other people's runs, and writes what the prior is read from.

A hierarchy: constants that all share, a factor for each trainer, one for each of its workloads (a model on a GPU kind,
in all releases and modes). The widths are those under which rows are likeliest whose whole workload, or whose whole
trainer, is left out of the fit; each left-out workload counts once. New rows go into `bench/data/measured_steps.csv`;
then `python bench/fit_prices.py --write` makes the constants anew.
"""

import argparse
import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize, minimize_scalar

from bench.strangers import TAIL, TAIL_WIDTH, fit_strangers, held, left_out_fits, strangers
from budgets.coefficients import CONSTANTS, PRIOR_LOG_SD, Coefficients, Efficiencies, FittedFactor
from budgets.cost import GENERATOR_SIDE, TRAINER_SIDE
from budgets.errors import InputError
from budgets.work import Driver, Phase
from planner.price.measured_runs import PHASE_COLUMNS, MeasuredRun, measured_run

ROWS = Path(__file__).parent / "data" / "measured_steps.csv"
TARGET = Path(__file__).parent.parent / "budgets" / "catalogue" / "efficiencies.toml"
NAMES = tuple(CONSTANTS)
CONSTANT_SD = np.array([PRIOR_LOG_SD[CONSTANTS[name][-1]] for name in NAMES])
TRAINER_SD, WORKLOAD_SD = 0.20, 0.25  # of the factors: frameworks, and workloads of one, differ by × 1.2 to 1.6
STEP_NOISE, PHASE_NOISE = 0.10, 0.30  # what releases leave of one workload's steps; phases are cut differently
BENCHMARKS = FittedFactor(0.0, 0.0, 0)  # no stranger's: as the makers of a trainer run it

Vector = NDArray[np.float64]


def part_factors(p: Vector) -> Vector:
    """Return what each part of a step is multiplied with: the constants, and 1 for the rest."""
    return np.exp([*p[: len(NAMES)], 0.0])


@dataclass(frozen=True)
class Example:
    """A measured run as the fit sees it: seconds by part, of each side and of each phase that was published."""

    run: MeasuredRun

    @cached_property
    def _phases(self) -> Mapping[Phase, Vector]:
        base = self.run.base_seconds(Coefficients())
        return {phase: _by_part(seconds) for phase, seconds in base.items()}

    def _sum(self, phases: Iterable[Phase]) -> Vector:
        return np.sum([self._phases[phase] for phase in phases], axis=0)

    @cached_property
    def sides(self) -> tuple[Vector, Vector]:
        """Seconds of generators and of trainers; of a trainer alone its update. The last entry grows with nothing."""
        if self.alone:
            return np.zeros(len(NAMES) + 1), self.columns["update_seconds"]
        return self._sum(GENERATOR_SIDE), self._sum(TRAINER_SIDE)

    @cached_property
    def columns(self) -> dict[str, Vector]:
        """Seconds of each published phase; none contains the fixed ones, which trainers time nowhere or apart."""
        timed = np.array([*(name != "fixed" for name in NAMES), True])
        return {column: timed * self._sum(PHASE_COLUMNS[column]) for column in self.run.seconds_by_column}

    def log_seconds(self, weights: Vector) -> float:
        """Return the logarithm of a batch's seconds with the parts so many times nominal."""
        generating, training = (float(side @ weights) for side in self.sides)
        whole = max(generating, training) if self.run.traits.asynchronous else generating + training
        return math.log(whole)

    def shares(self, weights: Vector) -> Vector:
        """Return what each constant makes up of a batch, of the slower side where there are two."""
        generating, training = (side * weights for side in self.sides)
        parts = generating + training
        if self.run.traits.asynchronous:
            parts = generating if generating.sum() > training.sum() else training
        return np.asarray(parts[: len(NAMES)] / parts.sum())

    def tells(self, constant: int) -> bool:
        """Whether a constant has a part in the run."""
        return bool(sum(side[constant] for side in self.sides) > 0)

    @property
    def alone(self) -> bool:
        """Whether no step was measured but the trainer's update."""
        return self.run.seconds is None

    @property
    def group(self) -> tuple[str, str]:
        """What shares a factor: its trainer with its workload."""
        return self.run.trainer, self.workload

    @property
    def workload(self) -> str:
        """Its model on its GPU kind."""
        return f"{self.run.workload.model.name} on {self.run.hardware.gpu.name}"

    @property
    def log_measured(self) -> float:
        """The logarithm of the measured seconds."""
        return math.log(self.run.seconds or self.run.seconds_by_column["update_seconds"])


def _by_part(seconds: Mapping[Driver, float]) -> Vector:
    parts = [sum(seconds.get(driver, 0.0) for driver in CONSTANTS[name]) for name in NAMES]
    return np.array([*parts, sum(seconds.values()) - sum(parts)])


def examples(rows: Path = ROWS) -> list[Example]:
    """Read the rows that can teach something: lengths and seconds are known, and the weights are in bf16."""
    with rows.open(encoding="utf-8", newline="") as file:
        found = [run for row in csv.DictReader(file) if row["precision"] != "fp8" and (run := _priced(row)) is not None]
    return [Example(run) for run in found]


def _priced(row: Mapping[str, str]) -> MeasuredRun | None:
    try:
        run = measured_run(row)
    except InputError:
        return None
    measured = run.seconds or "update_seconds" in run.seconds_by_column
    return run if measured and not run.length_log_sd else None


def fit(known: Sequence[Example]) -> Efficiencies:
    """Return the constants and the trainers' factors that explain the examples best."""
    p, trainers = _estimate(known)
    constants = {
        name: FittedFactor(float(p[i]), float(CONSTANT_SD[i]), _groups(each for each in known if each.tells(i)))
        for i, name in enumerate(NAMES)
    }
    factors = {}
    for name, value in trainers.items():
        own = _groups(each for each in known if each.run.trainer == name)
        # What so many workloads leave of the doubt about a trainer.
        factors[name] = FittedFactor(value, 1 / math.sqrt(1 / TRAINER_SD**2 + own / WORKLOAD_SD**2), own)
    return Efficiencies(constants, factors, BENCHMARKS)


def _estimate(known: Sequence[Example]) -> tuple[Vector, dict[str, float]]:
    """Return the most likely logarithms of the constants and of the trainers' factors."""
    names = len(NAMES)
    trainers = sorted({each.run.trainer for each in known})
    groups = sorted({each.group for each in known})
    timed = [(each, column) for each in known if not each.alone for column in each.columns]
    generating, training = (np.stack([each.sides[side] for each in known]) for side in (0, 1))
    split = np.array([each.run.traits.asynchronous for each in known])
    phases = np.reshape([each.columns[column] for each, column in timed], (-1, names + 1))
    measured = [each.log_measured for each in known]
    measured += [math.log(each.run.seconds_by_column[column]) for each, column in timed]
    owners = [*known, *(each for each, _ in timed)]
    members = np.array(
        [[*(each.run.trainer == name for name in trainers), *(each.group == own for own in groups)] for each in owners]
    )
    noise = np.array([STEP_NOISE] * len(known) + [PHASE_NOISE] * len(timed))
    sds = np.array([*CONSTANT_SD, *[TRAINER_SD] * len(trainers), *[WORKLOAD_SD] * len(groups)])

    def residuals(p: Vector) -> Vector:
        weights = part_factors(p)
        first, second = generating @ weights, training @ weights
        whole = np.where(split, np.maximum(first, second), first + second)
        predicted = np.log([*whole, *(phases @ weights)]) + members @ p[names:]
        return np.array([*(p / sds), *((measured - predicted) / noise)])

    found = least_squares(residuals, np.zeros(len(sds))).x
    return found[:names], {name: float(found[names + i]) for i, name in enumerate(trainers)}


def _groups(rows: Iterable[Example]) -> int:
    return len({each.group for each in rows})


@dataclass(frozen=True)
class LeftOut:
    """A run predicted from a fit that has not seen its workload, its trainer, or its generation of GPUs."""

    example: Example
    fitted: Efficiencies

    @property
    def trainer_known(self) -> bool:
        """Whether other workloads of its trainer are in the fit."""
        return self.example.run.trainer in self.fitted.trainers

    @property
    def log_predicted(self) -> float:
        """The logarithm of the predicted seconds of a batch."""
        return self.example.log_seconds(self._weights) + self._offset

    @property
    def log_miss(self) -> float:
        """The logarithm of predicted ÷ measured."""
        return self.log_predicted - self.example.log_measured

    def variance(self, constants: float, scatter: float) -> float:
        """Return the variance of the prediction, to first order: so many times the constants' widths, and a scatter."""
        factor = self.fitted.trainers.get(self.example.run.trainer)
        own = factor.log_sd**2 if factor else 0.0
        shares = self.example.shares(self._weights)
        return float(constants**2 * (shares**2 @ CONSTANT_SD**2)) + own + scatter**2

    def log_sd(self, widths: "Widths") -> float:
        """Return the width that a price would have."""
        scatter = widths.known if self.trainer_known else widths.unknown
        return TAIL_WIDTH * math.sqrt(self.variance(widths.constants / TAIL_WIDTH, scatter / TAIL_WIDTH))

    @property
    def _offset(self) -> float:
        factor = self.fitted.trainers.get(self.example.run.trainer)
        return factor.log_value if factor else 0.0

    @cached_property
    def _weights(self) -> Vector:
        return part_factors(np.array([each.log_value for each in self.fitted.constants.values()]))


def left_out(known: Sequence[Example], by: Callable[[Example], str]) -> list[LeftOut]:
    """Predict every run from the others: of other workloads, other trainers, or other generations."""
    found = []
    for group in sorted({by(each) for each in known}):
        rest = fit([each for each in known if by(each) != group])
        found += [LeftOut(each, rest) for each in known if by(each) == group]
    return found


@dataclass(frozen=True)
class Widths:
    """How uncertain a price of an unseen workload is, as standard deviations with the 90 % interval of a Student t."""

    constants: float  # times `CONSTANT_SD`
    known: float  # what remains, where the trainer is in the fit
    unknown: float  # where it is not

    def widen(self, found: Efficiencies) -> Efficiencies:
        """Return a fit with these widths."""
        constants = {
            name: replace(each, log_sd=self.constants * float(CONSTANT_SD[i]))
            for i, (name, each) in enumerate(found.constants.items())
        }
        trainers = {name: replace(each, log_sd=TAIL_WIDTH * each.log_sd) for name, each in found.trainers.items()}
        return Efficiencies(constants, trainers, BENCHMARKS)


def widths(known: Sequence[Example]) -> Widths:
    """Return the widths under which the workloads and trainers are likeliest that a fit has not seen."""
    workloads = [each for each in left_out(known, lambda each: each.workload) if each.trainer_known]
    trainers = left_out(known, lambda each: each.run.trainer)

    def unlikely(p: Vector) -> float:
        return _unlikely(workloads, math.exp(p[0]), math.exp(p[1]))

    constants, scatter = np.exp(minimize(unlikely, np.log([1.0, 0.1]), bounds=[(-3, 1), (-4, 0)]).x)
    alone = minimize_scalar(lambda x: _unlikely(trainers, constants, math.exp(x)), bounds=(-4, 0), method="bounded")
    return Widths(*(TAIL_WIDTH * float(each) for each in (constants, scatter, math.exp(alone.x))))


def _unlikely(rows: Sequence[LeftOut], constants: float, scatter: float) -> float:
    """Return minus the log-likelihood of the misses, each workload of a trainer counting once."""
    rows_of = Counter(each.example.group for each in rows)
    sds = np.sqrt([each.variance(constants, scatter) for each in rows])
    weights = 1 / np.array([rows_of[each.example.group] for each in rows])
    return -float(weights @ TAIL.logpdf(np.array([each.log_miss for each in rows]) / sds) - weights @ np.log(sds))


def written(found: Efficiencies) -> str:
    """Return the catalogue file, as a person reads it."""
    lines = [
        "# Made by bench/fit_prices.py from bench/data/measured_steps.csv: make it anew instead of changing it.",
        "#",
        "#   value      times the nominal seconds of budgets/work.py",
        "#   width      standard deviation of its logarithm between workloads: 0.2 is a factor of 1.4 at 90 %",
        "#   workloads  models on GPU kinds, by trainer, that it rests on",
        "#",
        "# constants: all parts of a step that these runs cannot tell apart; trainers: times all of them.",
        "# runs: times both, of strangers (bench/data/strangers.csv): whoever has not measured a step of his own.",
        "#     Of their steps, sources left out, so many were held by the 90 % interval.",
    ]
    tables = {"constants": found.constants, "trainers": found.trainers, "runs": {"strangers": found.strangers}}
    for kind, table in tables.items():
        for name, entry in table.items():
            lines += ["", f"[{kind}.{name}]", f"value = {math.exp(entry.log_value):.3f}"]
            lines += [f"width = {entry.log_sd:.3f}", f"workloads = {entry.workloads}"]
    lines += [f"held = {found.held[0]}", f"steps = {found.held[1]}"]
    return "\n".join(lines) + "\n"


def with_strangers(base: Efficiencies) -> Efficiencies:
    """Return a fit to benchmarks with what strangers' steps say beside it."""
    others = strangers(base)
    return replace(base, strangers=fit_strangers(others), held=held(others, left_out_fits(others)))


def main() -> None:
    """Print the fit; write it where it is read from when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=ROWS, help="a table with the columns of the shipped one")
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.name} into the catalogue")
    arguments = parser.parse_args()
    known = examples(arguments.rows)
    base = widths(known).widen(fit(known))
    text = written(with_strangers(base))
    print(text, end="")
    if arguments.write:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
