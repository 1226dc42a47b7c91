"""The driver of the stand-in: it runs a trial of a simulated world as a trainer's process would."""

import json
import pkgutil
import signal
import sys
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Any

import runner
from budgets.errors import InputError
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import TrialConfig
from runner.simulation.world import course_of
from runner.trainers.command.options import CLOCK, MetricsOptions
from runner.trainers.command.sources import FilesSource
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.driving import complete, save_steps
from runner.trainers.inside import SAVE_NOW
from runner.trainers.standin.files import CHECKPOINT
from runner.trainers.standin.options import StandinOptions, options_of

METRICS = MetricsOptions(columns={CLOCK: CLOCK})
_SAVE_STEPS = 10  # between saves, at most
_AHEAD = 2  # times the steps of a segment that are computed beforehand, for a gate that opens further
_MOST_AHEAD = 4000  # steps; the process computes what follows itself


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
