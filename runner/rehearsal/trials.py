"""A minute of a sweep with stand-ins: a segment of each trial in turn, on as many workers as there are."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from budgets.errors import CheckpointError, InputError
from budgets.hardware import SECONDS_PER_HOUR
from planner.config.trainer import STANDIN, Patience, TrainerChoice
from planner.store.schema import Candidate
from runner.backends import open_backend
from runner.ports.backend import Segment
from runner.ports.executor import Began, Ended, Event, Executor, Failed, Progress, Work
from runner.ports.trial import TrialConfig
from runner.sweep.spec import SweepSpec
from runner.sweep.stand_in import in_its_own_time
from runner.trainers.command.driver import driver

STEPS = 6  # of each trial
_SECONDS_PER_STEP = 1.0  # real ones, about
_PATIENCE = 60.0  # seconds beyond the minute for what is under way
_TICK = 0.5


@dataclass(frozen=True, slots=True)
class FirstStep:
    """What came of it."""

    seconds: float  # with its start-up
    score: float | None  # the last that was read
    checkpoint: str  # its name


def take_first_step(config: TrialConfig, folder: Path) -> FirstStep:
    """Start the command of a trial for one update and its validation; TrainingError says what of it cannot be read.

    A command that is told when to validate does so after this update.
    """
    options = driver(config).options
    if options.names("validate_every"):
        often = config.validation.model_copy(update={"every_rollouts": config.rollouts_per_step})
        config = config.model_copy(update={"validation": often})
    began, backend = time.monotonic(), open_backend(config)
    try:
        backend.start(config, folder)
        scores = [point.score for point in backend.advance(Segment(1)) if point.score is not None]
        saved = backend.checkpoint()
    finally:
        backend.close()
    if not saved.step:
        pattern = options.checkpoints.pattern
        raise CheckpointError(f"after its first update there is no checkpoint by the pattern '{pattern}'")
    return FirstStep(time.monotonic() - began, scores[-1] if scores else None, saved.path.name)


@dataclass
class RehearsalOutcome:
    """What was seen."""

    trials: list[str] = field(default_factory=list)  # whose segment ended well
    failures: dict[str, str] = field(default_factory=dict)  # by trial: class and message
    waiting: list[str] = field(default_factory=list)  # asked for, and not begun or ended in time
    at_once: int = 0
    begin_seconds: list[float] = field(default_factory=list)  # from asking for a worker to its first word
    first_point_seconds: list[float] = field(default_factory=list)  # from there to the first score


def standin_spec(spec: SweepSpec, candidates: Sequence[Candidate]) -> SweepSpec:
    """Return the sweep with stand-ins for its trainer, of which a step takes about a second."""
    pilots = [candidate for candidate in candidates if candidate.pilot_steps] or candidates
    step = (
        statistics.median(candidate.gpu_hours_per_step for candidate in pilots)
        * SECONDS_PER_HOUR
        / spec.resources.slots
    )
    trainer = spec.training.trainer
    options = {"time_scale": max(1, round(step / _SECONDS_PER_STEP))}
    if trainer is not None and trainer.name == STANDIN:
        options |= trainer.options
    patience = Patience() if trainer is None else trainer.patience
    chosen = TrainerChoice(name=STANDIN, options=options, patience=patience)
    training = spec.training.model_copy(update={"trainer": chosen, "simulation": None})
    return in_its_own_time(spec.model_copy(update={"training": training}), candidates)


class RehearsalRun:
    """Gives the trials to an executor, one after the other."""

    def __init__(
        self,
        executor: Executor,
        spec: SweepSpec,
        trials: dict[str, TrialConfig],
        folder: Path,
        storage: str | None = None,
    ) -> None:
        """The trials are those of a sweep of stand-ins, whose copies go to a URL where one is given."""
        self._executor, self._spec, self._folder, self._storage = executor, spec, folder, storage
        self._left = list(trials.items())
        self._names: dict[int, str] = {}
        self._asked_at: dict[int, float] = {}
        self._began_at: dict[int, float] = {}
        self._under_way: set[int] = set()
        self.outcome = RehearsalOutcome()

    def play(self, seconds: float) -> RehearsalOutcome:
        """Have each trial train a few steps, in so many seconds."""
        clock = self._executor.clock
        end = clock.seconds() + seconds
        while clock.seconds() < end + _PATIENCE and (self._under_way or self._left):
            if clock.seconds() < end:
                while self._left and len(self._under_way) < self._executor.workers:
                    self._give(*self._left.pop(0), self._spec.resources.gpus)
            elif not self._under_way:
                break
            for event in self._executor.wait(_TICK):
                self._take(event)
        self.outcome.waiting = [self._names[segment] for segment in sorted(self._under_way)]
        return self.outcome

    def place(self, name: str, config: TrialConfig, seconds: float) -> str | None:
        """Have a trial of another layout train its first steps, alone; return what went wrong with it."""
        self._executor.release()
        try:
            number = self._give(name, config, config.machine.gpus)
        except InputError as error:
            return str(error)
        clock = self._executor.clock
        end = clock.seconds() + seconds
        while number in self._under_way and clock.seconds() < end:
            for event in self._executor.wait(_TICK):
                self._take(event)
        if number in self._under_way:
            return f"it has not begun, or not ended, within {seconds:.0f} s"
        return self.outcome.failures.pop(name, None)

    def _give(self, name: str, config: TrialConfig, gpus: float) -> int:
        number = len(self._names) + 1
        need = self._spec.resources
        work = Work(
            segment=number,
            trial=number,
            attempt=1,
            config=config.model_dump(mode="json"),
            folder=str(self._folder / name),
            from_step=0,
            to_step=STEPS,
            most_seconds=SECONDS_PER_HOUR,
            cpus=need.cpus,
            gpus=gpus,
            slots=need.slots,
            storage=self._storage and f"{self._storage}/{name}",
        )
        self._names[number], self._asked_at[number] = name, self._executor.clock.seconds()
        self._executor.assign(work)
        self._under_way.add(number)
        return number

    def _take(self, event: Event) -> None:
        segment, now = getattr(event, "segment", 0), self._executor.clock.seconds()
        if segment not in self._under_way:
            return
        if isinstance(event, Began):
            self._began_at[segment] = now
            self.outcome.begin_seconds.append(now - self._asked_at[segment])
            self.outcome.at_once = max(self.outcome.at_once, len(self._under_way & self._began_at.keys()))
        elif isinstance(event, Progress) and event.points and event.points[0].optimizer_step == 0:
            self.outcome.first_point_seconds.append(now - self._began_at[segment])
        elif isinstance(event, Ended):
            self._under_way.discard(segment)
            self.outcome.trials.append(self._names[segment])
        elif isinstance(event, Failed):
            self._under_way.discard(segment)
            self.outcome.failures[self._names[segment]] = f"{event.kind}: {event.message}"
