"""The driver of the stand-in: it runs a trial of a simulated world as a trainer's process would."""

import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import runner
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import TrialConfig
from runner.simulation.world import course_of
from runner.trainers.catalogue import driver_of
from runner.trainers.command.driver import CommandDriver
from runner.trainers.command.options import CLOCK, KNOWN
from runner.trainers.command.sources import reading_of
from runner.trainers.driver import Attempt, Checkpoint, Launch, Reading, Source, TrainerDriver
from runner.trainers.driving import complete, in_own_ray
from runner.trainers.following import LineSource
from runner.trainers.inside import SAVE_NOW
from runner.trainers.standin.life import rows_of
from runner.trainers.standin.options import StandinOptions, options_of
from runner.trainers.standin.writing import CHECKPOINT

_AHEAD = 2  # times the steps of a segment that are reckoned beforehand, for a gate that opens further
_SAVE_STEPS = 10  # between saves, at most
_MOST_AHEAD = 4000  # steps; the process reckons what follows itself


class StandinDriver:
    """Stands for a trainer; see runner/trainers/driver.py."""

    name = "standin"

    def __init__(self, options: StandinOptions, original: TrainerDriver | None = None) -> None:
        """Take what is to go wrong, and the driver that knows the files of the trainer that it stands for."""
        self._options, self._original = options, original
        self.gated = options.gated
        ways = {"signal": int(signal.SIGTERM)}
        self.stop_signal = None if options.gated else ways.get(options.stops_on)
        self.saves_on_request = not options.gated and options.stops_on == "file"

    def check(self, config: TrialConfig) -> None:
        """Refuse what no simulated world knows."""
        course_of(config)

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch:
        """Write down what the process will do; on further machines one stands by."""
        name = f"standin-{attempt.number}.json"
        files = {} if rank else {name: json.dumps(self._given(config, attempt))}
        if isinstance(self._original, CommandDriver):
            wanted = self._original.launch(_of_original(config, self._options), attempt, rank)
            files |= {} if wanted is None else wanted.files
        python = config.driven_by.python or sys.executable
        argv = (python, "-m", "runner.trainers.standin.process", name, str(rank))
        launch = Launch(argv, files, {"PYTHONPATH": str(Path(runner.__file__).parents[1])})
        patience = config.driven_by.patience
        return in_own_ray(launch, attempt, rank, python, 0, patience) if self._options.own_ray else launch

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return its metrics, read as those of the trainer that it stands for."""
        if self._original is not None:
            return self._original.sources(_of_original(config, self._options), attempt)
        return [LineSource(attempt.metrics, _meaning)]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return its checkpoints: a folder has its name once it is whole."""
        if self._original is not None:
            return self._original.checkpoints(_of_original(config, self._options), folder)
        return complete(folder, CHECKPOINT)

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Leave it to the common rules."""
        return None

    def form(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        """Return how its files are written, and where."""
        form: dict[str, Any] = {"format": self._options.stands_for, "metrics": str(attempt.metrics)}
        if self._original is not None:
            form |= self._original.form(_of_original(config, self._options), attempt)
        return form

    def _given(self, config: TrialConfig, attempt: Attempt) -> dict[str, Any]:
        options, course = self._options, course_of(config)
        ahead = _AHEAD if config.driven_by.python is None else _MOST_AHEAD  # another interpreter may lack what reckons
        faults = [fault for fault in options.faults if fault.befalls(config, attempt.number)]
        return {
            **self.form(config, attempt),
            "from_step": attempt.from_step,
            "to_step": attempt.to_step,
            "time_scale": options.time_scale,
            "gated": options.gated,
            "save_every_steps": options.save_every_steps or min(_SAVE_STEPS, attempt.save_steps or _SAVE_STEPS),
            "save_now": SAVE_NOW if self.saves_on_request else None,
            "checkpoint_bytes": options.checkpoint_bytes,
            "slow_seconds": options.slow_seconds,
            "start_up_seconds": course.start_up_seconds,
            "save_seconds": course.save_seconds,
            "response_tokens": (config.simulation or SimulationChoice()).response_tokens,
            "faults": [{"kind": fault.kind, "at_step": fault.at_step} for fault in faults],
            "config": config.model_dump(mode="json"),
            "rows": rows_of(config, 0, min(ahead * attempt.to_step, attempt.from_step + _MOST_AHEAD)),
        }


def driver(config: TrialConfig) -> StandinDriver:
    """Return the driver of a trial's configuration."""
    options = options_of(config.driven_by)
    original = None if options.stands_for == "standin" else driver_of(_of_original(config, options))
    return StandinDriver(options, original)


def _of_original(config: TrialConfig, options: StandinOptions) -> TrialConfig:
    """Return the trial as the trainer that it stands for has it."""
    trainer = config.driven_by.model_copy(update={"name": options.stands_for, "options": options.options})
    return config.model_copy(update={"trainer": trainer})


def _meaning(line: str) -> list[Reading]:
    with suppress(ValueError, AttributeError):
        reading = reading_of(json.loads(line), {name: name for name in (*KNOWN, CLOCK)})
        return [] if reading is None else [reading]
    return []
