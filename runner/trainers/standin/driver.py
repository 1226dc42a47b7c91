"""The driver of the stand-in: it runs a trial of a simulated world as a trainer's process would.

Its options say how fast its time passes, when it saves, and what goes wrong where.
"""

import json
import pkgutil
import signal
import sys
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

import runner
from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from planner.tables import Count, NotNegative, Section, explained
from runner.ports.trial import SimulationChoice, TrialConfig
from runner.simulation.world import course_of
from runner.trainers.checkpoints import complete
from runner.trainers.command.options import CLOCK, MetricsOptions
from runner.trainers.command.sources import FilesSource
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.job import save_steps
from runner.trainers.standin.process import CHECKPOINT
from runner.trainers.trainer_process import SAVE_NOW

METRICS = MetricsOptions(columns={CLOCK: CLOCK})
_SAVE_STEPS = 10  # between saves, at most
_AHEAD = 2  # times the steps of a segment that are computed beforehand, for a gate that opens further
_MOST_AHEAD = 4000  # steps; the process computes what follows itself


class Fault(Section):
    """Something that goes wrong in one update of a trial."""

    kind: Literal[
        "hang", "out-of-memory", "nan", "torn-checkpoint", "cut-line", "slow-start", "deaf", "killed", "refused", "fall"
    ]
    at_step: Annotated[int, Field(ge=0)] = 1
    attempts: Annotated[int, Field(ge=0)] = Field(1, description="the first so many of a trial; 0: all")
    rollouts_per_prompt: Count | None = Field(None, description="of the trials that it befalls; without it, of all")
    prompts_per_batch: Count | None = None
    seed: Annotated[int, Field(ge=0)] | None = None

    def befalls(self, config: TrialConfig, attempt: int) -> bool:
        """Whether it goes wrong in this attempt of this trial."""
        names = ("rollouts_per_prompt", "prompts_per_batch", "seed")
        mine = all(getattr(self, name) in (None, getattr(config, name)) for name in names)
        return mine and (not self.attempts or attempt <= self.attempts)


class StandinOptions(Section):
    """[trainer.options] of the stand-in."""

    time_scale: Count = Field(1, description="seconds of its world that pass in a real one")
    gated: bool = Field(True, description="whether it waits for the next segment; else it is started for each")
    stops_on: Literal["signal", "file", "nothing"] = Field(
        "signal", description="without the gate: it saves and ends on SIGTERM, saves on request, or knows no way"
    )
    save_every_steps: Count | None = Field(None, description="else 10, or fewer where save_seconds want it")
    checkpoint_bytes: Annotated[int, Field(ge=0)] = 0
    slow_seconds: NotNegative = Field(5.0, description="real ones, of the fault slow-start")
    faults: list[Fault] = Field([], description="what goes wrong, and where")
    driver: str | None = Field(None, description="module:class of another StandinDriver, as tests of a driver have one")
    options: dict[str, Any] = Field({}, description="those of that driver")


def options_of(choice: TrainerChoice) -> StandinOptions:
    """Return the options of a trainer that is the stand-in."""
    try:
        return StandinOptions.model_validate(choice.options)
    except ValidationError as error:
        raise explained(error, StandinOptions, {}, "[trainer.options] of the stand-in") from error


class StandinDriver:
    """Stands for a trainer, and speaks the protocol of the trainer `command`; see runner/trainers/driver.py."""

    name = "standin"
    program = "runner.trainers.standin.process"

    def __init__(self, config: TrialConfig, options: StandinOptions) -> None:
        """Take what is to go wrong."""
        self.options, self.gated, self.trains_on = options, options.gated, not options.gated
        self.stop_signal = int(signal.SIGTERM) if not options.gated and options.stops_on == "signal" else None
        self.saves_on_request = not options.gated and options.stops_on == "file"

    def check(self, config: TrialConfig) -> None:
        """Refuse what no simulated world knows."""
        course_of(config)

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch:
        """Write down what the process will do; on further machines one stands by."""
        name = f"standin-{attempt.number}.json"
        files = {} if rank else {name: json.dumps(self.run(config, attempt))}
        argv = (config.driven_by.python or sys.executable, "-m", self.program, name, str(rank))
        return Launch(argv, files, {"PYTHONPATH": str(Path(runner.__file__).parents[1])})

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return its lines of JSON."""
        return [FilesSource(escape(str(attempt.metrics)), {}, METRICS)]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return its checkpoints: a folder has its name once it is whole."""
        return complete(folder, CHECKPOINT)

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Leave it to the common rules."""
        return None

    def run(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return what the process is given."""
        options, course = self.options, course_of(config)
        ahead = _AHEAD if config.driven_by.python is None else _MOST_AHEAD  # another interpreter may not compute it
        fit = attempt.save_steps or _SAVE_STEPS
        saves = save_steps(config, attempt) if attempt.trains_on else min(_SAVE_STEPS, fit)
        faults = [fault for fault in options.faults if fault.befalls(config, attempt.number)]
        return {
            **options.model_dump(include={"time_scale", "gated", "checkpoint_bytes", "slow_seconds"}),
            "metrics": str(attempt.metrics),
            "from_step": attempt.from_step,
            "to_step": attempt.to_step,
            "save_every_steps": options.save_every_steps or saves,
            "save_now": SAVE_NOW if self.saves_on_request else None,
            "start_up_seconds": course.start_up_seconds,
            "save_seconds": course.save_seconds,
            "response_tokens": (config.simulation or SimulationChoice()).response_tokens,
            "faults": [(fault.kind, fault.at_step) for fault in faults],
            "config": config.model_dump(mode="json"),
            "rows": rows_of(config, 0, min(ahead * attempt.to_step, attempt.from_step + _MOST_AHEAD)),
        }


def driver(config: TrialConfig) -> StandinDriver:
    """Return the driver of a trial's configuration."""
    options = options_of(config.driven_by)
    try:
        made: type[StandinDriver] = pkgutil.resolve_name(options.driver) if options.driver else StandinDriver
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"[trainer.options] driver = '{options.driver}' of the stand-in: {error}") from error
    return made(config, options)


def rows_of(config: TrialConfig | dict[str, Any], first: int, last: int) -> list[list[Any]]:
    """Return seconds, score, its error and what breaks down, of each step from one to another."""
    course = course_of(TrialConfig.model_validate(config))
    rows: list[list[Any]] = []
    for step in range(first, last + 1):
        point, breakdown = course.point(step), course.breakdown(step - 1, step)
        rows.append([point.seconds, point.score, point.score_standard_error, breakdown and breakdown.kind])
    return rows
