"""The backend that trains nothing: a simulated trial goes through the port as a real one does.

What it reports is of the simulated clock; it waits only where the configuration asks for a real pace.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from budgets.errors import CheckpointError, InputError, TrainingError
from runner.ports.backend import Point, Saved, Segment
from runner.ports.trial import TrialConfig
from runner.simulation.world import Course, course_of
from runner.training import checkpoints


class SimulatedBackend:
    """One trial of a simulated world at a time."""

    saves_itself = False

    def __init__(self) -> None:
        self._course: Course | None = None
        self._config: TrialConfig | None = None
        self._folder = Path()
        self._step = -1  # −1: not even step 0 has been scored
        self.notes: tuple[str, ...] = ()  # what `restore` passed over

    def start(self, config: TrialConfig, folder: Path) -> None:
        """Prepare a fresh trial; a folder that holds a trial already is refused."""
        checkpoints.require_free(folder)
        self._open(config, folder, -1)

    def advance(self, segment: Segment) -> Iterator[Point]:
        """Yield a point for step 0 if it is new, and after every update up to the segment's last."""
        course, config = self._opened()
        pause = config.simulation.sleep_seconds_per_update if config.simulation else 0.0
        for step in range(self._step + 1, segment.to_step + 1):
            if pause and step:
                time.sleep(pause)
            if failed := course.breakdown(step - 1, step):
                raise TrainingError(failed.kind, failed.message)
            self._step = step
            yield course.point(step)
            if segment.stopping():
                return

    def checkpoint(self) -> Saved:
        """Save the trial's step atomically; the two newest checkpoints are kept."""
        _, config = self._opened()
        if self._step < 0:
            raise CheckpointError("a trial that has not scored its base model has nothing to save: advance it first")
        state = {"config": config.model_dump(mode="json"), "step": self._step}
        return Saved(self._step, checkpoints.save(self._folder, self._step, state, checkpoints.PLAIN))

    def restore(self, config: TrialConfig, folder: Path) -> int:
        """Go on from the newest sound checkpoint; `notes` says which damaged ones were passed over."""
        restored = checkpoints.resumed(folder, config, checkpoints.PLAIN)
        self.notes = restored.notes
        self._open(config, folder, int(restored.state["step"]))
        return self._step

    def close(self) -> None:
        """Forget the trial."""
        self._course = None

    def _open(self, config: TrialConfig, folder: Path, step: int) -> None:
        self.close()
        course = course_of(config)
        if config.simulation and config.simulation.sleep_seconds_at_start:
            time.sleep(config.simulation.sleep_seconds_at_start)
        self._course, self._config, self._folder, self._step = course, config, folder, step

    def _opened(self) -> tuple[Course, TrialConfig]:
        if self._course is None or self._config is None:
            raise InputError("no trial is open: start or restore one first")
        return self._course, self._config
