"""Fits the cost model's constants to measured steps of other people's runs, and writes what the prior is read from.

A hierarchy: constants that all share, a factor for each trainer, one for each set-up (a release on a machine). The
width of each is what explains the rows best when their set-up, or their whole trainer, is left out of the fit. New
rows go into `bench/data/measured_steps.csv`; then `python bench/fit_prices.py --write` makes the constants anew.
"""

import argparse
import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize_scalar

from budgets import catalogue
from budgets.coefficients import CONSTANTS, PRIOR_LOG_SD, Coefficients, Efficiencies, Fitted
from budgets.cost import GENERATOR_SIDE, TRAINER_SIDE
from budgets.errors import InputError
from budgets.measured_runs import PHASE_COLUMNS, MeasuredRun, measured_run
from budgets.work import Phase

ROWS = Path(__file__).parent / "data" / "measured_steps.csv"
TARGET = Path(__file__).parent.parent / "budgets" / "catalogue" / "efficiencies.toml"
NAMES = tuple(CONSTANTS)
CONSTANT_SD = np.array([PRIOR_LOG_SD[CONSTANTS[name][-1]] for name in NAMES])
LOOSE = 0.3 * CONSTANT_SD  # between set-ups, so that measured steps of one's own can move each
# At least so much for a model or a GPU kind that no row has: left out one by one they are hardly further off, but these
# are three kinds, and one that is in no table (64 GB, 280 TFLOPS) was off by × 1.4 to 1.8.
UNSEEN_SD = 0.15
TRAINER_SD, SETUP_SD = 0.20, 0.15  # of the factors: frameworks, and releases of one, differ by × 1.2 to 1.6
STEP_NOISE, PHASE_NOISE = 0.08, 0.30  # what one table's averages of a few steps leave; phases are cut differently

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """A measured run as the fit sees it: seconds by constant, of each side and of each phase that was published."""

    run: MeasuredRun

    @cached_property
    def _phases(self) -> Mapping[Phase, Vector]:
        base = self.run.base_seconds(Coefficients())
        return {phase: _by_constant(seconds) for phase, seconds in base.items()}

    def _sum(self, phases: Iterable[Phase]) -> Vector:
        return np.sum([self._phases[phase] for phase in phases], axis=0)

    @cached_property
    def sides(self) -> tuple[Vector, Vector]:
        """Seconds of generators and of trainers; the last entry grows with no constant."""
        return self._sum(GENERATOR_SIDE), self._sum(TRAINER_SIDE)

    @cached_property
    def columns(self) -> dict[str, Vector]:
        """Seconds of each published phase."""
        return {column: self._sum(PHASE_COLUMNS[column]) for column in self.run.seconds_by_column}

    def log_seconds(self, weights: Vector) -> float:
        """Return the logarithm of a batch's seconds with the constants so many times nominal."""
        generating, training = (float(side @ weights) for side in self.sides)
        whole = max(generating, training) if self.run.traits.asynchronous else generating + training
        return math.log(whole)

    def shares(self, weights: Vector) -> Vector:
        """Return what each constant makes up of a batch, of the slower side where there are two."""
        generating, training = (side * weights for side in self.sides)
        parts = generating + training
        if self.run.traits.asynchronous:
            parts = generating if generating.sum() > training.sum() else training
        return np.asarray(parts[:-1] / parts.sum())

    def tells(self, constant: int) -> bool:
        """Whether a constant has a part in the run."""
        return bool(sum(side[constant] for side in self.sides) > 0)

    @property
    def involved(self) -> tuple[str, str]:
        """Its GPU kind and its model."""
        return self.run.hardware.gpu.name, self.run.workload.model.name

    @property
    def log_measured(self) -> float:
        """The logarithm of the measured seconds."""
        assert self.run.seconds is not None
        return math.log(self.run.seconds)


def _by_constant(seconds: Mapping[object, float]) -> Vector:
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
    return run if not run.length_log_sd and run.seconds else None


def fit(known: Sequence[Example]) -> Efficiencies:
    """Return the constants and the trainers' factors that explain the examples best, with their uncertainty."""
    trainers = sorted({each.run.trainer for each in known})
    setups = sorted({each.run.setup for each in known})
    first_setup = len(NAMES) + len(trainers)
    sds = np.concatenate([CONSTANT_SD, np.full(len(trainers), TRAINER_SD), np.full(len(setups), SETUP_SD)])

    def residuals(p: Vector) -> Vector:
        weights = np.exp(np.append(p[: len(NAMES)], 0.0))
        off = list(p / sds)
        for each in known:
            offset = p[len(NAMES) + trainers.index(each.run.trainer)] + p[first_setup + setups.index(each.run.setup)]
            off.append((each.log_measured - each.log_seconds(weights) - offset) / STEP_NOISE)
            for column, base in each.columns.items():
                measured = math.log(each.run.seconds_by_column[column])
                off.append((measured - math.log(float(base @ weights)) - offset) / PHASE_NOISE)
        return np.array(off)

    found = least_squares(residuals, np.zeros(len(sds)))

    def fitted(index: int, log_sd: float, seen: Sequence[Example]) -> Fitted:
        return Fitted(float(found.x[index]), log_sd, _setups(seen))

    constants = {
        name: fitted(i, float(LOOSE[i]), [each for each in known if each.tells(i)]) for i, name in enumerate(NAMES)
    }
    factors = {}
    for i, name in enumerate(trainers):
        own = [each for each in known if each.run.trainer == name]
        # What so many set-ups leave of the doubt about a trainer.
        doubt = 1 / math.sqrt(1 / TRAINER_SD**2 + _setups(own) / SETUP_SD**2)
        factors[name] = fitted(len(NAMES) + i, doubt, own)
    seen = frozenset(name for each in known for name in each.involved)
    return Efficiencies(constants, factors, seen, SETUP_SD, math.hypot(SETUP_SD, TRAINER_SD), TRAINER_SD)


def _setups(rows: Iterable[Example]) -> int:
    return len({each.run.setup for each in rows})


@dataclass(frozen=True)
class LeftOut:
    """A run predicted from a fit that has not seen its set-up, or its trainer at all."""

    example: Example
    fitted: Efficiencies

    @property
    def trainer_known(self) -> bool:
        """Whether other set-ups of its trainer are in the fit."""
        return self.example.run.trainer in self.fitted.trainers

    @property
    def log_predicted(self) -> float:
        """The logarithm of the predicted seconds of a batch."""
        return self.example.log_seconds(self._weights) + self._offset

    @property
    def log_miss(self) -> float:
        """The logarithm of predicted ÷ measured."""
        return self.log_predicted - self.example.log_measured

    def log_phase(self, column: str) -> float:
        """Return the logarithm of the predicted seconds of a published phase."""
        return math.log(float(self.example.columns[column] @ self._weights)) + self._offset

    @property
    def all_seen(self) -> bool:
        """Whether its model and its GPU kind are in the fit."""
        return self.fitted.seen.issuperset(self.example.involved)

    def variance(self, scatter: float) -> float:
        """Return the variance of the prediction with a scatter of the whole, to first order."""
        factor = self.fitted.trainers.get(self.example.run.trainer)
        own = factor.log_sd**2 if factor else 0.0
        return float(self.example.shares(self._weights) ** 2 @ LOOSE**2) + own + scatter**2

    @property
    def _offset(self) -> float:
        factor = self.fitted.trainers.get(self.example.run.trainer)
        return factor.log_value if factor else 0.0

    @cached_property
    def _weights(self) -> Vector:
        return np.exp([*(self.fitted.constants[name].log_value for name in NAMES), 0.0])


def left_out(known: Sequence[Example], by: Callable[[MeasuredRun], str]) -> list[LeftOut]:
    """Predict every run from the others: of other set-ups, or of other trainers."""
    found = []
    for group in sorted({by(each.run) for each in known}):
        rest = fit([each for each in known if by(each.run) != group])
        found += [LeftOut(each, rest) for each in known if by(each.run) == group]
    return found


def with_widths(known: Sequence[Example]) -> Efficiencies:
    """Fit, and choose the widths under which the rows are likeliest that the fit has not seen."""
    trainers = left_out(known, lambda run: run.trainer)
    setups = [each for each in left_out(known, lambda run: run.setup) if each.trainer_known and each.all_seen]
    models = left_out(known, lambda run: run.workload.model.name)
    kinds = left_out(known, lambda run: run.hardware.gpu.name)
    within = _scatter(setups)
    across = _scatter([each for each in trainers if not each.trainer_known])
    new = _scatter([each for each in (*models, *kinds) if each.trainer_known and not each.all_seen])
    return replace(
        fit(known),
        known_log_sd=within,
        unknown_log_sd=across,
        unseen_log_sd=max(UNSEEN_SD, math.sqrt(max(0.0, new**2 - within**2))),
    )


def _scatter(rows: Sequence[LeftOut]) -> float:
    """Return the scatter under which the rows are likeliest, at least a few percent."""
    misses = np.array([each.log_miss for each in rows])

    def unlikely(log_scatter: float) -> float:
        variances = np.array([each.variance(math.exp(log_scatter)) for each in rows])
        return float(np.sum(misses**2 / variances + np.log(variances)))

    return math.exp(float(minimize_scalar(unlikely, bounds=(math.log(0.03), 0.0), method="bounded").x))


def written(found: Efficiencies) -> str:
    """Return the catalogue file, as a person reads it."""
    lines = [
        "# Made by bench/fit_prices.py from bench/data/measured_steps.csv: make it anew instead of changing it.",
        "#",
        "#   value    times the nominal seconds of budgets/work.py",
        "#   width    standard deviation of its logarithm between set-ups: 0.2 is a factor of 1.4 either way at 90 %",
        "#   setups   releases on machines that it rests on",
        "#",
        "# constants: all parts of a step that these runs cannot tell apart; trainers: times all of them.",
        "# scatter: what remains for a set-up of a trainer that is named here, of one that is not; what a model",
        "# or a GPU kind that no run had adds.",
    ]
    for kind, table in (("constants", found.constants), ("trainers", found.trainers)):
        for name, entry in table.items():
            lines += ["", f"[{kind}.{name}]", f"value = {math.exp(entry.log_value):.3f}"]
            lines += [f"width = {entry.log_sd:.3f}", f"setups = {entry.setups}"]
    lines += ["", "[scatter]", f"known_trainer = {found.known_log_sd:.3f}"]
    lines += [f"unknown_trainer = {found.unknown_log_sd:.3f}", f"unseen = {found.unseen_log_sd:.3f}", "", "[seen]"]
    for kind in ("gpus", "models"):
        lines.append(f"{kind} = {json.dumps(sorted(found.seen.intersection(catalogue.names(kind))))}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the fit; write it where it is read from when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=ROWS, help="a table with the columns of the shipped one")
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.name} into the catalogue")
    arguments = parser.parse_args()
    text = written(with_widths(examples(arguments.rows)))
    print(text, end="")
    if arguments.write:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
