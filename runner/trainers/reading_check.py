"""Checks what a trainer says of its steps before it becomes points: numbers, ranges of scores, order of steps."""

import math
from dataclasses import replace
from typing import Any

from budgets.errors import TrainingError
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Reading
from runner.trainers.driving import validation_steps

METRICS = "metrics"  # the kind of failure of a trainer whose metrics cannot be read as they are
_NUMBERS = ("score", "score_standard_error", "response_tokens", "at_seconds")
_LONGEST = 1e9  # tokens of a response; beyond it a number is no length
_ROUNDING = 1e-6  # of a score


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
