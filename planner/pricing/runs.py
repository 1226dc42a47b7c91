"""Runs of a table, each with its predicted seconds beside what was measured, and how well that went in all."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from budgets.errors import RlplanError
from budgets.work import total
from planner.pricing.measured_runs import MeasuredRun, measured_run
from planner.pricing.one import Interval, interval_of


@dataclass(frozen=True, slots=True)
class PricedRun:
    """A row: what was predicted of a batch's seconds, None where it cannot be priced, and what was measured."""

    row_id: str
    predicted: Interval | None
    measured: float | None
    phases: Mapping[str, Interval] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Predicted ÷ measured."""
        return self.predicted[0] / self.measured if self.predicted and self.measured else None

    @property
    def inside(self) -> bool | None:
        """Whether the 90 % interval holds what was measured."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted[1] <= self.measured <= self.predicted[2]


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all rows that are priced and measured; misses are factors either way."""

    rows: int
    typical_miss: float | None
    within_90: float | None  # the factor that nine of ten rows lie within
    inside_interval: float | None


def priced_runs(rows: Iterable[Mapping[str, str]]) -> list[PricedRun]:
    """Price every row of a table, by its number where it has no name; one that cannot be says why in its notes."""
    return [_priced(row, row.get("row_id") or f"row {number}") for number, row in enumerate(rows, start=1)]


def summary(runs: Sequence[PricedRun]) -> Summary:
    """Say how far predictions were off."""
    misses = [abs(math.log(run.ratio)) for run in runs if run.ratio]
    inside = [run.inside for run in runs if run.inside is not None]
    if not misses:
        return Summary(0, None, None, None)
    import numpy as np  # noqa: PLC0415 (for tables alone)

    typical, most = np.exp(np.quantile(misses, [0.5, 0.9]))
    return Summary(len(misses), float(typical), float(most), sum(inside) / len(inside))


def _priced(row: Mapping[str, str], name: str) -> PricedRun:
    try:
        run = measured_run(row)
        predicted, phases = _predicted(run)
    except RlplanError as error:
        return PricedRun(name, None, None, notes=(f"not priced: {error}",))
    return PricedRun(name, predicted, run.seconds, phases, run.notes)


def _predicted(run: MeasuredRun) -> tuple[Interval, dict[str, Interval]]:
    known = run.coefficients
    phases = {
        phase.value: interval_of(total(seconds), known.log_sd(seconds))
        for phase, seconds in run.base_seconds(known).items()
        if total(seconds) > 0
    }
    return interval_of(run.batch_seconds(known), run.cost(known).log_sd), phases
