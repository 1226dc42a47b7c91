"""The port behind which a trial is trained; tests/conformance holds every backend to this text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from budgets.errors import NotFoundError
from runner.ports.trial import TrialConfig


class UnreadableError(NotFoundError):
    """Every checkpoint of a trial was tried and cannot be read: it can only begin anew."""


def never() -> bool:
    """Say that nobody asks for an end."""
    return False


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of training: up to this many updates since the trial began, or to the update in which it is to stop."""

    to_step: int
    stopping: Callable[[], bool] = never  # looked at after every update at least
    update_seconds: float | None = None  # that an update is expected to take, where that is known
    reach: int = 0  # the update up to which a trainer that saves by itself may train on meanwhile


class Saved(NamedTuple):
    """Where a trial can go on from."""

    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class Point:
    """What one update did, or, at step 0 and at the cadence, how the trial scores; counts are since the beginning."""

    optimizer_step: int
    rollouts: int  # generated for training, filtered ones included
    tokens: int  # of those rollouts' responses
    seconds: float  # since the trial was first started, up to the checkpoint of each attempt that was interrupted
    gpu_hours: float
    score: float | None = None
    score_standard_error: float | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # health: see runner.training.trainer
    further_scores: dict[str, tuple[float, float]] = field(default_factory=dict)  # best@k, worst@k, each with its error


class TrainerBackend(Protocol):
    """Trains one trial, a segment at a time."""

    @property
    def saves_itself(self) -> bool:
        """Whether checkpoints are made during a segment by whoever trains, so that none can be asked for in between."""

    def start(self, config: TrialConfig, folder: Path) -> None:
        """Prepare a fresh trial that keeps its files in `folder`; InputError says what cannot be run and why."""

    def advance(self, segment: Segment) -> Iterator[Point]:
        """Train up to the segment's last step, yielding a point for step 0 if it is new, and after every update.

        Once the segment is to stop it ends after the update under way, however far it is. A trial that cannot go on
        raises TrainingError, whose `kind` classifies it.
        """

    def checkpoint(self) -> Saved:
        """Save everything that the trial needs to go on exactly, atomically, and return where it lies.

        Whoever saves by itself may have saved less than the last point: what lies beyond is made again.
        """

    def restore(self, config: TrialConfig, folder: Path) -> int:
        """Go on from the newest sound checkpoint in `folder` and return its step; NotFoundError when there is none.

        It is an UnreadableError where there were some and all have failed it. The configuration must be the one that
        the trial was started with, or InputError says what differs.
        """

    def close(self) -> None:
        """Free what the trial holds. Closing twice is allowed."""
