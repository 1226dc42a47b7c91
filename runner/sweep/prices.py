"""What updates and start-ups are measured to take, and the cells of a plan at those prices."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.axes import LEARNING_RATE, rate_factor, with_rate, without
from planner.rules import LOOK_SHARE
from planner.store.schema import Candidate, Segment, SegmentOutcome
from planner.view import Axes, Configuration, OpenCell
from runner.sweep.plan_rows import configuration_of
from runner.sweep.spec import SweepSpec

EXPECTED_UPDATES = 3.0  # the first ones of a process are slower than the rest
LEAST_HELD = 0.1  # of a start-up, where the trainer lives on: it saves and is waited for
NEWS = 0.25  # of a start-up: less of a difference is not told


@dataclass(slots=True)
class TrialSteps:
    """What is known of a trial's updates."""

    planned: float  # GPU-hours of one, before anything was measured
    before: float | None = None  # GPU-hours at its first point: its start-up and the base model's validation
    made: int = 0  # that were measured
    took: float = 0.0  # their GPU-hours
    newest: float | None = None  # GPU-hours of one of the newest, where these alone count

    def price(self, factor: float) -> float:
        """Return the GPU-hours of a further one: what was expected of it counts as much as a few that were measured."""
        if self.newest is not None:
            return self.newest
        expected = self.planned * factor
        if not self.made:
            return expected
        return (EXPECTED_UPDATES * expected + self.took) / (EXPECTED_UPDATES + self.made)


class StepPrices:
    """GPU-hours of a trial's step: by its own updates, and by how those of all departed from the plan."""

    def __init__(self) -> None:
        """Begin with the plan's prices."""
        self.trials: dict[int, TrialSteps] = {}
        self.factor = 1.0  # on the plan's prices
        self._measured = self._measured_before = 0  # trials

    def of(self, trial: int) -> float:
        """Return what is to be expected of a trial's next step."""
        return self.trials[trial].price(self.factor)

    def measure(self, trial: int, before: float, made: int, gpu_hours: float) -> None:
        """Take in how many updates a trial has made with so many GPU-hours, and what it took before the first one."""
        trial_steps = self.trials[trial]
        trial_steps.before = before if trial_steps.before is None else trial_steps.before
        if made:
            self._measured += not trial_steps.made
            trial_steps.made, trial_steps.took = made, max(0.0, gpu_hours - trial_steps.before)

    @property
    def rest_on_more(self) -> bool:
        """Whether clearly more trials were measured than the factor rests on."""
        return self._measured > self._measured_before + self._measured_before // 4

    def correct(self) -> None:
        """Let all that was measured correct the plan's prices, whatever the order in which it came."""
        self._measured_before = self._measured
        if measured := [trial for trial in self.trials.values() if trial.made]:
            self.factor = statistics.median(trial.price(1.0) / trial.planned for trial in measured)


class StartUps:
    """GPU-hours that a segment takes beside its updates: what the plan has for them, until they were measured.

    Somebody else's trainer that lives on between two segments starts once, one that does not starts for each: so what
    the segments took whose worker held the trial already is kept apart.
    """

    def __init__(self, planned: Mapping[Axes, float], otherwise: float, *, measures: bool) -> None:
        """Take the plan's start-ups by axes, and the one of all; a sweep that does not measure keeps to them."""
        self._planned, self._otherwise, self._measures = planned, otherwise, measures
        self._took: dict[tuple[Axes, bool], list[float]] = {}
        self._holders: dict[str, int] = {}  # the trial that a worker has in its memory
        self._last_count, self._last_typical = 0, max(planned.values(), default=otherwise)
        self.measured = 0

    def note(self, axes: Axes, gpu_hours: float, *, held: bool) -> None:
        """Take in what a segment took beside its updates."""
        if self._measures:
            self._took.setdefault((axes, held), []).append(gpu_hours)
            self.measured += 1

    def at_least(self, axes: Axes, gpu_hours: float) -> None:
        """Take in what a segment took that made no update: its start-up is no shorter than that."""
        if gpu_hours > self.of(axes):
            self.note(axes, gpu_hours, held=False)

    def of(self, axes: Axes, *, held: bool = False) -> float:
        """Return what is to be expected: the median of what was measured, of other axes where these have none."""
        if held:  # the end of a budget would else go into ever smaller segments
            return max(self._expected(axes, True), LEAST_HELD * self._expected(axes, False))
        return self._expected(axes, False)

    def further(self, axes: Axes) -> float:
        """Return what a segment takes whose worker holds its trial, as measured; until then, that it is waited for."""
        took = self._took.get((axes, True))
        return statistics.median(took) if took else LEAST_HELD * self.of(axes)

    def _expected(self, axes: Axes, held: bool) -> float:
        planned = self._planned.get(axes, self._otherwise)
        for kind in (held, False):
            if own_seconds := self._took.get((axes, kind)):
                return statistics.median(own_seconds)
            others = [
                (place, self._planned.get(other, self._otherwise))  # of all axes, each with what the plan had for it
                for (other, others_kind), took in self._took.items()
                if others_kind == kind
                for place in took
            ]
            if others:
                typical = statistics.median(seconds for seconds, _ in others)
                ratios = [seconds / its for seconds, its in others if its > 0]
                return planned * statistics.median(ratios) if ratios and planned > 0 else typical
        return planned

    @property
    def typical(self) -> float:
        """What a new worker takes to start any trial: the largest that is expected."""
        return max((self.of(axes) for axes in self._planned), default=self._otherwise)

    def news(self) -> str | None:
        """Return a sentence when start-ups turned out clearly other than was said, or planned, before."""
        now, before = self.typical, self._last_typical
        if not self.measured or abs(now - before) <= NEWS * max(now, before):
            return None
        self._last_typical = now
        planned = max(self._planned.values(), default=self._otherwise)
        return (
            f"a segment takes {now:.3g} GPU-hours beside its updates, as measured on {self.measured} (the plan has "
            f"{planned:.3g}): prices, reservations and the length of segments heed it"
        )

    @property
    def has_grown(self) -> bool:
        """Whether clearly more was measured than when this was last asked."""
        if self.measured <= self._last_count + self._last_count // 4:
            return False
        self._last_count = self.measured
        return True

    def hold(self, worker: str, trial: int | None) -> None:
        """Note what a worker has in its memory now."""
        if trial is None:
            self._holders.pop(worker, None)
        elif self._measures:
            self._holders[worker] = trial

    def held_by(self, worker: str) -> int | None:
        """Return the trial that a worker has in its memory."""
        return self._holders.get(worker)

    def holders(self, trial: int) -> list[str]:
        """Return the workers that have a trial in their memory."""
        return [worker for worker, held_trial in self._holders.items() if held_trial == trial]

    def is_held(self, trial: int) -> bool:
        """Say whether a worker has a trial in its memory."""
        return bool(self.holders(trial))

    def recall(self, segments: Sequence[tuple[Axes, Segment]]) -> None:
        """Take in the segments of an earlier driver, oldest first; none of their workers lives any more."""
        before: dict[str, int] = {}
        for axes, segment in segments:
            worker = segment.worker or ""
            if segment.start_up_gpu_hours is not None:
                self.note(axes, segment.start_up_gpu_hours, held=before.get(worker) == segment.trial_id)
            if segment.outcome is SegmentOutcome.COMMITTED:
                before[worker] = segment.trial_id


OTHER_RATES = (1 / 3, 3.0)  # times a champion's own learning rate, where that may be what makes it sick


class Cells:
    """A plan's rows by what is compared; of a learning rate that is searched for any is that of its row."""

    def __init__(self, spec: SweepSpec, candidates: list[Candidate], start_ups: StartUps) -> None:
        """Take the plan's rows; all that the final run could afford are open, and other rates of a champion's sizes."""
        between = spec.learning_rate_range
        self._rates = (between[0], between[1]) if between else None
        self._start_ups, self._price_factor = start_ups, 1.0
        self._rows = {self._place(configuration_of(row)): row for row in candidates}
        self._untried = {place: row for place, row in self._rows.items() if row.update_steps > 0}
        self._open: dict[Configuration, OpenCell] | None = None
        champion = spec.champion_terms
        self._look_gpu_hours = 0.0 if champion is None else LOOK_SHARE * champion.total_gpu_hours
        self._other_rates: dict[Configuration, Candidate] = {}
        for candidate in () if champion is None else champion.candidates:
            for factor in OTHER_RATES:
                rate = float(f"{factor * rate_factor(candidate.axes):.3g}")  # as names and people have it
                other = candidate._replace(axes=with_rate(candidate.axes, rate))
                self._other_rates.setdefault(other, self.row(candidate))
        self._other_rates = {place: row for place, row in self._other_rates.items() if place not in self._rows}
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
        return min((row.pilot_steps for row in self._rows.values() if row.pilot_steps), default=1)

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
