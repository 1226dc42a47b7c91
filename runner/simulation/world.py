"""What a trial will do, known beforehand: what drawn surfaces and recorded tables have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from budgets.errors import InputError
from budgets.hardware import SECONDS_PER_HOUR
from runner.ports.backend import Point
from runner.ports.simulation import Failures
from runner.ports.trial import TrialConfig
from runner.simulation.chance import uniform


@dataclass(frozen=True, slots=True)
class Breakdown:
    """An update in which a trial fails, whoever runs it and however often."""

    step: int
    kind: str  # as TrainingError classifies it
    message: str


class Course(ABC):
    """The whole life of one trial, as functions of its step: no step has to be made to see a later one.

    `seconds` are of the trial's own training and validation, those of step 0 included; what a worker needs to start it
    comes on top, each time that it is not in memory.
    """

    start_up_seconds: float  # of a worker before a trial that it does not hold goes on
    save_seconds = 0.0  # of a checkpoint
    last_step: int | None = None  # beyond it nothing is known; None when it can be trained for ever

    def __init__(self, config: TrialConfig, failures: Failures, key: int) -> None:
        """Take what decides how it fails: all draws follow from the key."""
        self._gpus, self._failures, self._key = config.machine.gpus, failures, key
        known = _breakdowns(failures, key, config.rollouts_per_step)
        self._breakdown = min(known, key=lambda found: found.step, default=None)

    @abstractmethod
    def seconds(self, step: int) -> float:
        """Return the trial's seconds when a step and its validation are over; it grows with every step."""

    @abstractmethod
    def step_at(self, seconds: float) -> int:
        """Return the first step that is over at or after so many of the trial's seconds, the last one at most."""

    @abstractmethod
    def scored_steps(self, after: int, upto: int) -> Sequence[int]:
        """Return the steps that have a score, from `after` (excluded; −1 for all) to `upto` (included)."""

    @abstractmethod
    def point(self, step: int) -> Point:
        """Return what is known at a step."""

    def breakdown(self, after: int, upto: int) -> Breakdown | None:
        """Return the first update in that range which fails."""
        found = self._breakdown
        return found if found is not None and after < found.step <= upto else None

    def seconds_until_lost(self, attempt: int, from_step: int) -> float:
        """Return after how many seconds in this attempt from this step the worker is lost; infinite when never.

        The rate is constant per GPU-hour; another attempt is another draw.
        """
        rate = self._failures.lost_per_gpu_hour * self._gpus / SECONDS_PER_HOUR
        return -math.log(uniform(self._key, attempt, from_step, 51)) / rate if rate else math.inf


class World(Protocol):
    """Knows what each trial will do."""

    def course(self, config: TrialConfig) -> Course:
        """Return the life of a trial; InputError when the trial does not belong to this world."""
        ...


def require_constant_batch(config: TrialConfig) -> None:
    """Refuse a trial whose batch grows: no world without training knows what that does to its score."""
    if config.growth is not None:
        raise InputError(
            f"growth {config.growth} cannot be simulated or replayed: worlds without training know constant batches "
            "alone; leave growth out, or train"
        )


def _breakdowns(failures: Failures, trial: int, rollouts: int) -> Iterator[Breakdown]:
    """Yield the updates that fail of a trial with this key and so many rollouts per step."""
    most = failures.most_rollouts
    if most is not None and rollouts > most:
        room = f"{rollouts:,} rollouts per step, and this world has room for {most:,}; use fewer"
        yield Breakdown(1, "out-of-memory", f"out of memory in update 1: {room}")
    if failures.nan_per_update:
        step = max(1, math.ceil(math.log(uniform(trial, 52)) / math.log1p(-failures.nan_per_update)))
        yield Breakdown(step, "nan", f"the loss of update {step} is not a number; use a lower learning rate")
    if failures.at_step is not None:
        step, kind = failures.at_step, failures.at_step_kind
        yield Breakdown(step, kind, f"{kind} in update {step}, as simulation.failures asks for")
