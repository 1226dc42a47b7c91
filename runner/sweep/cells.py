"""The cells of a plan as a sweep finds them: the row that a trial is of, and those that no trial is of yet."""

from collections.abc import Mapping

from planner.axes import LEARNING_RATE, without
from planner.store.schema import Candidate
from planner.view import Configuration, OpenCell
from runner.sweep.planned import configuration_of
from runner.sweep.prices import StartUps
from runner.sweep.spec import SweepSpec


class Cells:
    """A plan's rows by what is compared; of a learning rate that is searched for any is that of its row."""

    def __init__(self, spec: SweepSpec, candidates: list[Candidate], start_ups: StartUps) -> None:
        """Take the plan's rows; all that the final run could afford are open."""
        between = spec.learning_rate_range
        self._rates = (between[0], between[1]) if between else None
        self._start_ups, self._price_factor = start_ups, 1.0
        self._rows = {self._place(configuration_of(each)): each for each in candidates}
        self._untried = {place: each for place, each in self._rows.items() if each.update_steps > 0}
        self._open: dict[Configuration, OpenCell] | None = None

    def row(self, configuration: Configuration) -> Candidate:
        """Return the plan's row for a configuration."""
        return self._rows[self._place(configuration)]

    @property
    def shortest_pilot(self) -> int:
        """Steps of a trial that the plan gave no pilot: as few as the shortest that it did give, one without any."""
        return min((each.pilot_steps for each in self._rows.values() if each.pilot_steps), default=1)

    def tried(self, configuration: Configuration) -> None:
        """Take in that there is a trial; another learning rate of its cell may be tried all the same."""
        if self._rates is None:
            self._untried.pop(configuration, None)
            self._open = None

    def reprice(self, factor: float) -> None:
        """Price open cells by the plan's prices times a factor, and by start-ups as they are measured now."""
        self._price_factor, self._open = factor, None

    def open(self) -> Mapping[Configuration, OpenCell]:
        """Return what a trial could be begun of."""
        if self._open is None:
            self._open = {
                configuration_of(each): OpenCell(
                    rollouts_per_prompt=each.rollouts_per_prompt,
                    prompts_per_batch=each.prompts_per_batch,
                    pilot_steps=min(self.shortest_pilot, each.update_steps),
                    gpu_hours_per_step=each.pilot_price * self._price_factor,
                    start_up_gpu_hours=self._start_ups.of(without(each.axes, LEARNING_RATE)),
                    axes=each.axes,
                    learning_rates=self._rates,
                    compared_per_gpu_hour=each.compared_per_pilot_gpu_hour,
                )
                for each in self._untried.values()
            }
        return self._open

    def _place(self, configuration: Configuration) -> Configuration:
        """Return what the plan has a row for: a configuration without a learning rate that is searched for."""
        if self._rates is None:
            return configuration
        return configuration._replace(axes=without(configuration.axes, LEARNING_RATE))
