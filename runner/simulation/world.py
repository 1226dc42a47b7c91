"""What a trial will do, known beforehand: the protocol that simulated surfaces and recorded tables both keep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from budgets.errors import InputError
from runner.ports.backend import Point
from runner.ports.trial import TrialConfig


@dataclass(frozen=True, slots=True)
class Breakdown:
    """An update in which a trial fails, whoever runs it and however often."""

    step: int
    kind: str  # as TrainingError classifies it
    message: str


class Course(Protocol):
    """The whole life of one trial, as functions of its step: no step has to be made to see a later one.

    `seconds` are of the trial's own training and validation, those of step 0 included; what a worker needs to start it
    comes on top, each time that it is not in memory.
    """

    @property
    def start_up_seconds(self) -> float:
        """Seconds of a worker before a trial that it does not hold goes on."""
        ...

    @property
    def save_seconds(self) -> float:
        """Seconds of a checkpoint."""
        ...

    @property
    def last_step(self) -> int | None:
        """The step beyond which nothing is known; None when it can be trained for ever."""
        ...

    def seconds(self, step: int) -> float:
        """Return the trial's seconds when a step and its validation are over; it grows with every step."""
        ...

    def step_at(self, seconds: float) -> int:
        """Return the first step that is over at or after so many of the trial's seconds, the last one at most."""
        ...

    def scored_steps(self, after: int, upto: int) -> Sequence[int]:
        """Return the steps that have a score, from `after` (excluded; −1 for all) to `upto` (included)."""
        ...

    def point(self, step: int) -> Point:
        """Return what is known at a step."""
        ...

    def breakdown(self, after: int, upto: int) -> Breakdown | None:
        """Return the first update in that range which fails."""
        ...

    def seconds_until_lost(self, attempt: int, from_step: int) -> float:
        """Return after how many seconds in this attempt from this step the worker is lost; infinite when never."""
        ...


def require_constant_batch(config: TrialConfig) -> None:
    """Refuse a trial whose batch grows: no world without training knows what that does to its score."""
    if config.growth is not None:
        raise InputError(
            f"growth {config.growth} cannot be simulated or replayed: worlds without training know constant batches "
            "alone; leave growth out, or train"
        )


class World(Protocol):
    """Knows what each trial will do."""

    def course(self, config: TrialConfig) -> Course:
        """Return the life of a trial; InputError when the trial does not belong to this world."""
        ...
