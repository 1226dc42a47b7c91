"""From what a trainer says of its steps to the points of a trial, checked: numbers, ranges, order; pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from budgets.errors import TrainingError
from budgets.hardware import SECONDS_PER_HOUR
from runner.ports.backend import Point
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.driver import Reading
from runner.trainers.job import validation_steps

METRICS = "metrics"  # the kind of failure of a trainer whose metrics cannot be read as they are
_NUMBERS = ("score", "score_standard_error", "response_tokens", "at_seconds")
_LONGEST = 1e9  # tokens of a response; beyond it a number is no length
_ROUNDING = 1e-6  # of a score
MOST_BAD_LOSSES = 3  # updates in a row whose loss is no number: nothing that follows is training


class ReadingCheck:
    """The readings of one attempt."""

    def __init__(self, config: TrialConfig, stands_at: int, *, scored: bool) -> None:
        """`scored` says whether the trial has had a score before."""
        self._low, self._high = config.task.reward_range if config.driven_by.scores_itself else (0.0, 1.0)
        every = validation_steps(config)
        self._due = math.inf if scored else (stands_at // every + 1) * every  # the first validation of the trial
        self.notes: dict[str, str] = {}  # by what they are of: each is said once
        self.unscored_at: int | None = None  # the step of the first validation, where no score came of it

    def checked(self, reading: Reading, newest: int, to_step: float) -> Reading | None:
        """Return what of a reading counts, None for an earlier step than the newest; TrainingError where none can."""
        if reading.step > to_step:
            raise TrainingError(
                METRICS,
                f"step {reading.step:,} was read in a segment that ends with update {to_step:,.0f}: its step has to "
                "count updates of n · B rollouts since the trial began, no micro-batches, tokens or epochs",
            )
        if reading.step < newest:
            self.notes.setdefault("step", f"step {reading.step:,} was read after step {newest:,} and passed over")
            return None
        numbers = {name: value for name in _NUMBERS if (value := getattr(reading, name)) is not None}
        for name, value in {**numbers, **reading.metrics, **reading.seconds}.items():
            if not _is_sound(name, value):
                self.notes.setdefault(name, f"{name} = {value:g} at step {reading.step:,} was passed over: no number")
        counted: dict[str, Any] = {name: value if _is_sound(name, value) else None for name, value in numbers.items()}
        seconds = {name: value for name, value in reading.seconds.items() if math.isfinite(value)}
        reading = replace(reading, **counted, seconds=seconds)
        return reading if reading.score is None else self._in_range(reading, reading.score)

    def made(self, step: int, score: float | None) -> None:
        """Take in that a point was made of a step."""
        if score is not None:
            self._due = math.inf
        elif step >= self._due and self.unscored_at is None:
            self.unscored_at = step

    def _in_range(self, reading: Reading, score: float) -> Reading:
        low, high = self._low, self._high
        share, error = (score - low) / (high - low), reading.score_standard_error
        if not -_ROUNDING <= share <= 1 + _ROUNDING:
            raise TrainingError(
                METRICS,
                f"score {score:g} was read at step {reading.step:,}, and scores lie from {low:g} to {high:g}: where it "
                "is in percent, set reward_range = [0, 100] under [task] of rlplan.toml",
            )
        error = None if error is None else error / (high - low)
        return replace(reading, score=min(1.0, max(0.0, share)), score_standard_error=error)


def _is_sound(name: str, value: float) -> bool:
    """Whether a number is finite, and a length one that a response can have."""
    return math.isfinite(value) and (name != "response_tokens" or 0 <= value <= _LONGEST)


class PointMaker:
    """Puts the readings of each step together; a point is made when a later step is read, or when nothing is to come.

    Steps that the trial has had are dropped: a resumed trainer scores its checkpoint again. Start-up does not count as
    training: where a trainer says that it stands at its first step, before any score, time begins there.
    """

    def __init__(self, config: TrialConfig, last: Point | None, *, scored: bool = True) -> None:
        """`last` is the point where the trial stands; None for a fresh one, which has not been `scored` either."""
        self.check = ReadingCheck(config, last.optimizer_step if last is not None else 0, scored=scored)
        self._config = config
        self._last = last
        self._pending: Reading | None = None
        self._pending_at = 0.0
        self._origin = 0.0  # where training began, by the trainer's own clock where it has one, else by the attempt's
        self._read_at = 0.0
        self._before = last.seconds if last is not None else 0.0
        self._bad_losses = 0
        self._start_up_reported = False
        self.start_up_seconds: float | None = None

    def goes_on_from(self, at_seconds: float) -> None:
        """Say where on the trainer's own clock the trial stood at its last point."""
        self._origin, self.start_up_seconds = at_seconds, 0.0

    def waited(self, seconds: float, now: float) -> None:
        """Leave out that long, until now: the trainer stood at its gate, which is paid for and is no training."""
        self._origin += seconds
        self._read_at = now

    @property
    def newest(self) -> int:
        """The last step that anything was said of; −1 when nothing was."""
        if self._pending is not None:
            return self._pending.step
        return self._last.optimizer_step if self._last is not None else -1

    def take(self, readings: Sequence[Reading], now: float, to_step: float = math.inf) -> Iterator[Point]:
        """Yield the points that are complete with these readings, which arrived since the last call.

        TrainingError where one cannot be, such as a step beyond `to_step`.
        """
        for number, reading in enumerate(readings, start=1):
            at = self._read_at + (now - self._read_at) * number / len(readings)
            if (checked := self.check.checked(reading, self.newest, to_step)) is not None:
                yield from self._one(checked, at)
        self._read_at = now

    def rest(self) -> list[Point]:
        """Return the point of the last step: nothing more is to come of it."""
        pending, self._pending = self._pending, None
        return [] if pending is None else [self._point(pending)]

    def _one(self, reading: Reading, arrived: float) -> list[Point]:
        at = arrived if reading.at_seconds is None else reading.at_seconds
        if self.start_up_seconds is None:
            stands = self._last.optimizer_step if self._last is not None else 0
            if reading.step == stands and reading.score is None and not reading.metrics:
                self.start_up_seconds, self._origin = arrived, at
                return []
            self.start_up_seconds, self._origin = 0.0, at - arrived
        made: list[Point] = []
        pending = self._pending
        if pending is not None and reading.step > pending.step:
            made = self.rest()
            pending = None
        last_step = self._last.optimizer_step if self._last is not None else -1
        if reading.step <= last_step:
            return made
        self._pending, self._pending_at = _together(pending, reading), at
        return made + (self.rest() if reading.whole else [])

    def _point(self, reading: Reading) -> Point:
        config, last, step = self._config, self._last, reading.step
        self._require_numbers(reading)
        # What was trained on other GPUs, as a pilot that becomes the final run was, keeps what it took there.
        before, paid = (last.seconds, last.gpu_hours) if last is not None else (0.0, 0.0)
        seconds = max(before, self._before + self._pending_at - self._origin)
        made = (step - (last.optimizer_step if last is not None else 0)) * config.rollouts_per_step
        other = max(0.0, seconds - before - sum(reading.seconds.values()))  # than what the trainer names
        length = reading.response_tokens
        metrics = {name: value for name, value in reading.metrics.items() if math.isfinite(value)}
        if length is not None:
            metrics["response_tokens"] = length
        elif made:
            embedded = EMBEDDED.get(config.task.name)
            # The length at which responses are cut is an upper bound, and said to be one.
            if most := config.task.max_response_tokens or (embedded.max_response_tokens if embedded else 0):
                metrics["response_tokens_at_most"] = length = float(most)
        error = reading.score_standard_error
        if error is None and reading.score is not None:  # as of so many problems that are right or wrong
            error = math.sqrt(reading.score * (1 - reading.score) / config.validation.problems)
        # How long the start took stands beside the first point after it; it is no part of the point's own time.
        first, self._start_up_reported = not self._start_up_reported, True
        start_up = {"start_up": self.start_up_seconds} if first and self.start_up_seconds else {}
        point = Point(
            optimizer_step=step,
            rollouts=step * config.rollouts_per_step,
            tokens=(last.tokens if last is not None else 0) + round(made * (length or 0.0)),
            seconds=seconds,
            gpu_hours=paid + (seconds - before) * config.machine.gpus / SECONDS_PER_HOUR,
            score=reading.score,
            score_standard_error=error,
            metrics={**metrics, "seconds": {**reading.seconds, "other": other, **start_up}},
        )
        self._last = point
        self.check.made(step, reading.score)
        return point

    def _require_numbers(self, reading: Reading) -> None:
        loss = reading.metrics.get("loss")
        if loss is None:
            return
        self._bad_losses = 0 if math.isfinite(loss) else self._bad_losses + 1
        if self._bad_losses >= MOST_BAD_LOSSES:
            raise TrainingError(
                "nan",
                f"{MOST_BAD_LOSSES} updates in a row, up to {reading.step}, had a loss that is not finite: use a lower "
                "learning rate",
            )


def recovered(config: TrialConfig, last: Point | None, readings: Sequence[Reading], to_step: int) -> list[Point]:
    """Return the points up to a checkpoint that nobody read while their trainer lived, with its own clock where it has.

    Without one they take no time: what it cost is charged all the same, by how long it lived.
    """
    maker = PointMaker(config, last)
    stands = last.optimizer_step if last is not None else -1
    at = next(
        (
            reading.at_seconds
            for reading in readings
            if reading.step == max(0, stands) and reading.at_seconds is not None
        ),
        None,
    )
    if at is not None:
        maker.goes_on_from(at)
    missing = [
        reading
        for reading in readings
        if stands < reading.step <= to_step and (reading.metrics or reading.score is not None)
    ]
    return [*maker.take(missing, 0.0), *maker.rest()]


def _together(first: Reading | None, second: Reading) -> Reading:
    if first is None:
        return second
    values = {
        name: value
        for name in ("score", "score_standard_error", "response_tokens", "at_seconds")
        if (value := getattr(second, name)) is not None
    }
    seconds = {**first.seconds, **second.seconds}
    return replace(first, metrics={**first.metrics, **second.metrics}, seconds=seconds, whole=second.whole, **values)
