"""The cells of a plan as a sweep finds them: the row that a trial is of, and those that no trial is of yet."""

import math
from collections.abc import Mapping

from planner.axes import LEARNING_RATE, rate_factor, with_rate, without
from planner.rules import LOOK_SHARE
from planner.store.schema import Candidate
from planner.view import Configuration, OpenCell
from runner.sweep.planned import configuration_of
from runner.sweep.prices import StartUps
from runner.sweep.spec import SweepSpec

OTHER_RATES = (1 / 3, 3.0)  # times a champion's own learning rate, where that may be what makes it sick


class Cells:
    """A plan's rows by what is compared; of a learning rate that is searched for any is that of its row."""

    def __init__(self, spec: SweepSpec, candidates: list[Candidate], start_ups: StartUps) -> None:
        """Take the plan's rows; all that the final run could afford are open, and other rates of a champion's sizes."""
        between = spec.learning_rate_range
        self._rates = (between[0], between[1]) if between else None
        self._start_ups, self._price_factor = start_ups, 1.0
        self._rows = {self._place(configuration_of(each)): each for each in candidates}
        self._untried = {place: each for place, each in self._rows.items() if each.update_steps > 0}
        self._open: dict[Configuration, OpenCell] | None = None
        champion = spec.champion_terms
        self._look_gpu_hours = 0.0 if champion is None else LOOK_SHARE * champion.total_gpu_hours
        self._other_rates: dict[Configuration, Candidate] = {}
        for each in () if champion is None else champion.candidates:
            for factor in OTHER_RATES:
                rate = float(f"{factor * rate_factor(each.axes):.3g}")  # as names and people have it
                other = each._replace(axes=with_rate(each.axes, rate))
                self._other_rates.setdefault(other, self.row(each))
        self._other_rates = {each: row for each, row in self._other_rates.items() if each not in self._rows}
        self._rows |= self._other_rates

    def row(self, configuration: Configuration) -> Candidate:
        """Return the plan's row for a configuration; a champion's learning rate may be one that no row has."""
        row = self._rows.get(self._place(configuration))
        return row or self._rows[configuration._replace(axes=without(configuration.axes, LEARNING_RATE))]

    def shortest_pilot(self, row: Candidate) -> int:
        """Return the steps of a trial that the plan gave no pilot: those of a look where a sweep has a champion.

        Else as few as the shortest that the plan did give, one without any.
        """
        if self._look_gpu_hours:
            return max(1, math.ceil(self._look_gpu_hours / row.gpu_hours_per_step))
        return min((each.pilot_steps for each in self._rows.values() if each.pilot_steps), default=1)

    def tried(self, configuration: Configuration) -> None:
        """Take in that there is a trial; another learning rate of its cell may be tried all the same."""
        if self._rates is None:
            self._untried.pop(configuration, None)
        self._other_rates.pop(configuration, None)
        self._open = None

    def reprice(self, factor: float) -> None:
        """Price open cells by the plan's prices times a factor, and by start-ups as they are measured now."""
        self._price_factor, self._open = factor, None

    def open(self) -> Mapping[Configuration, OpenCell]:
        """Return what a trial could be begun of."""
        if self._open is None:
            untried = {configuration_of(row): row for row in self._untried.values()}
            self._open = {place: self._open_cell(place, row, self._rates) for place, row in untried.items()}
            self._open |= {place: self._open_cell(place, row, None) for place, row in self._other_rates.items()}
        return self._open

    def _open_cell(self, place: Configuration, row: Candidate, rates: tuple[float, float] | None) -> OpenCell:
        return OpenCell(
            rollouts_per_prompt=row.rollouts_per_prompt,
            prompts_per_batch=row.prompts_per_batch,
            pilot_steps=min(self.shortest_pilot(row), row.update_steps),
            gpu_hours_per_step=row.pilot_price * self._price_factor,
            start_up_gpu_hours=self._start_ups.of(without(row.axes, LEARNING_RATE)),
            axes=place.axes,
            learning_rates=rates,
            compared_per_gpu_hour=row.compared_per_pilot_gpu_hour,
        )

    def _place(self, configuration: Configuration) -> Configuration:
        """Return what the plan has a row for: a configuration without a learning rate that is searched for."""
        if self._rates is None:
            return configuration
        return configuration._replace(axes=without(configuration.axes, LEARNING_RATE))
