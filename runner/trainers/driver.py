"""What a driver says of its trainer; it starts nothing, reads no clock, and keeps nothing in memory.

The way of a segment: `check` the configuration, `launch` gives the command of one attempt, the supervisor starts it and
reads its `sources`, `checkpoints` says what can be gone on from, `classify` what an exit means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from runner.ports.trial import TrialConfig

GATE = "gate.json"  # written by the supervisor: {"to_step": k}; 0 asks to save and wait after the update under way
WAITING = "waiting.json"  # written by a trainer that has saved and waits: {"step": k}; removed when it goes on


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a trainer, from where to where."""

    folder: Path  # of all its files: the folder `trainer` in that of the trial
    number: int  # 1, 2, … of the trial's starts
    from_step: int  # of the checkpoint; 0 for a fresh run
    to_step: int
    checkpoint: Path | None  # to go on from
    hosts: tuple[str, ...] = ("127.0.0.1",)  # addresses, the head's first
    gpus: tuple[str, ...] = ()  # CUDA_VISIBLE_DEVICES on each host, where there are any
    save_steps: int | None = None  # updates between saves, by what an update takes; None: as between validations
    trains_on: bool = False  # beyond its segment's end, of which a save with a validation is all that is needed

    @property
    def metrics(self) -> Path:
        """Where a trainer that can be told so writes its metrics: a file of this attempt alone."""
        return self.folder / f"attempt-{self.number}.metrics.jsonl"

    @property
    def log(self) -> Path:
        """Where everything that the process of the head prints goes."""
        return self.folder / f"attempt-{self.number}.log"


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start on one host."""

    argv: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)  # by their path in the attempt's folder; written before
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a trainer says of one step; several of one step are put together, None and what is missing is not known."""

    step: int
    score: float | None = None  # of a validation, with the error of its mean
    score_standard_error: float | None = None
    response_tokens: float | None = None  # mean length of the responses of this update
    at_seconds: float | None = None  # by the trainer's own clock, of which only differences count
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)  # where the time of this update went, by phase
    whole: bool = False  # nothing more is to come of this step


class Source(Protocol):
    """Where the metrics of an attempt appear."""

    def read(self) -> list[Reading]:
        """Return what is new since the last call; half a line waits for its other half."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint, by the trainer's own mark."""

    step: int
    path: Path
    beside: tuple[Path, ...] = ()  # files outside of it without which it is not complete, such as the mark


class TrainerDriver(Protocol):
    """Everything that rlplan knows of one trainer."""

    @property
    def name(self) -> str:
        """As in --trainer."""

    @property
    def stop_signal(self) -> int | None:
        """Signal on which it saves and exits; None: it knows none, and what follows its last checkpoint is lost."""

    @property
    def gated(self) -> bool:
        """Whether it heeds the file GATE: it then waits at a segment's end with the model in memory."""

    @property
    def trains_on(self) -> bool:
        """Whether it saves every so many updates by itself, so that its process need not end with a segment."""

    @property
    def saves_on_request(self) -> bool:
        """Whether it looks for the file SAVE_NOW after every update, and saves where it is there."""

    def check(self, config: TrialConfig) -> None:
        """Refuse what it cannot run by InputError, naming the nearest that it can."""

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Return what to start on the host of a rank; None where the head starts everything."""

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return where its metrics appear."""

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return the complete checkpoints in the attempt's folder, the newest first."""

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return kind and message of a failure that only this trainer words so; None leaves it to the common rules."""


def can_be_asked(driver: TrainerDriver) -> bool:
    """Whether it saves when it is asked to; one that cannot is not ended because its time is used up."""
    return driver.gated or driver.stop_signal is not None or driver.saves_on_request


@runtime_checkable
class Rehearsing(Protocol):
    """A driver that can have the trainer itself look at a configuration, in its own environment."""

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Return what the trainer's own parser refuses, in its words; nothing where it accepts."""


@runtime_checkable
class Reaching(Protocol):
    """A driver whose trainer is a service."""

    def reach(self, config: TrialConfig) -> None:
        """Ask the service: InputError where nobody answers, or where it refuses the key or has not the model."""


@runtime_checkable
class Explaining(Protocol):
    """A driver that can tell why nothing was heard of a trainer that ended in good order, or no score."""

    def unheard(self, config: TrialConfig, attempt: Attempt) -> str | None:
        """Return which of its own settings matches nothing; None where they do."""

    def unscored(self, config: TrialConfig, attempt: Attempt) -> str:
        """Return what was read where a score was looked for."""
