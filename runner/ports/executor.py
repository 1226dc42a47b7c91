"""The port behind which segments are executed; tests/conformance holds every executor to this text.

An executor has workers, hands each at most one segment at a time, and reports what happens as events. It decides
nothing and stores nothing but the trials' own files.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from budgets.errors import InputError
from runner.ports.backend import Point


class NoRoomError(InputError):
    """A segment cannot be taken now, as after the loss of a node; nothing was done, and it may be taken later."""


@dataclass(frozen=True, slots=True)
class Work:
    """A segment to execute: train a trial from the step where it stands up to another."""

    segment: int  # the segment's id in the database; events refer to it
    trial: int
    attempt: int
    config: dict[str, Any]  # a TrialConfig as JSON
    folder: str  # the trial's own, on storage that every worker reaches
    from_step: int  # committed; 0 for a trial that never ran
    to_step: int
    # Of the worker's life, from the end of its last segment or its birth: start-up and waiting count. After an update
    # that reaches it, it stops; without an end where the trainer could not save then.
    most_seconds: float
    # Of the same span, all that is paid for: a worker that hears nothing of its driver ends itself when it is used up.
    reserved_seconds: float = math.inf
    cpus: float = 1.0
    gpus: float = 0.0
    memory_gb: float = 0.0  # 0: not counted
    slots: int = 1  # GPUs (or CPU workers) that each second of the worker counts for
    update_seconds: float | None = None  # that an update is expected to take
    storage: str | None = None  # URL of the trial's copy, for where the folder is each machine's own
    reach: int = 0  # the update up to which its trainer may go on in the same process, until the next segment comes


@dataclass(frozen=True, slots=True)
class Began:
    """A worker has taken the segment."""

    segment: int
    worker: str
    worker_seconds: float  # of the worker's life so far, by its own clock; the same in all events


@dataclass(frozen=True, slots=True)
class Progress:
    """New points of a segment under way, those first that an earlier worker made and could not report."""

    segment: int
    worker: str
    worker_seconds: float
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The segment is over and its trial is saved at `step`.

    That is `to_step`, less when it was stopped or out of time, or where a trainer that goes on saved next.
    """

    segment: int
    worker: str
    worker_seconds: float
    step: int
    checkpoint: str
    notes: tuple[str, ...] = ()


OF_FOLDER = ("error", "input", "checkpoint")  # kinds of a failure that a folder which is away may have caused


@dataclass(frozen=True, slots=True)
class Failed:
    """The segment is over and its trial stands where it was last saved.

    `kind` classifies why: what TrainingError says, or lost (the worker or its node is gone), preempted (so says its
    cluster, which lends it), checkpoint (it could not be saved or read), input (it cannot be run as it is configured),
    error (anything else).
    """

    segment: int
    worker: str | None  # None when no worker had taken it
    worker_seconds: float
    kind: str
    message: str
    tail: str = ""  # of the worker's log


@dataclass(frozen=True, slots=True)
class Gone:
    """A worker's life is over, in good order or not; it held no segment or has been reported as failed."""

    worker: str
    worker_seconds: float
    reason: str


Event = Began | Progress | Ended | Failed | Gone


class Clock(Protocol):
    """Tells the time of the world in which an executor works."""

    def now(self) -> datetime:
        """Return the time of day, in UTC, for what is stored; it may jump."""

    def seconds(self) -> float:
        """Return seconds that only ever grow, for what is measured."""


class RealClock:
    """The world's own: the time of day, and the monotonic clock."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


class Executor(Protocol):
    """Executes segments on workers."""

    @property
    def clock(self) -> Clock:
        """The clock of its world."""

    @property
    def workers(self) -> int:
        """How many segments can run at once now; it falls when a node is lost and rises when one joins."""

    def assign(self, work: Work) -> None:
        """Take a segment; every one that was taken ends in exactly one `Ended` or `Failed`.

        A worker that has just run the same trial goes on with it as it stands in memory. `NoRoomError` when it may run
        later, `InputError` when it can never run here.
        """

    def stop(self, segment: int) -> None:
        """Have a segment end, saved, after the update under way; an unknown or ended one is passed over."""

    def extend(self, segment: int, reserved_seconds: float) -> None:
        """Tell a segment under way that more is paid for now; an unknown or ended one is passed over."""

    def kill(self, segment: int, reason: str) -> None:
        """End the worker of a segment at once: it hangs, and is reported as Failed (kind `hang`) and Gone.

        A segment that is unknown, over or not taken yet is passed over.
        """

    def release(self) -> None:
        """End the workers that hold no segment, each of which is reported as Gone: nothing is to be had for them now.

        The next segment gets a new worker.
        """

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what has happened, in order, after so many seconds at most; at once when something has."""

    def close(self) -> Sequence[Event]:
        """End all workers, saving nothing, and return the last events; no process of the executor's is left."""
