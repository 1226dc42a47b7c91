"""The first step of a trainer of one's own, taken for real: its command, its metrics, its checkpoint."""

import time
from dataclasses import dataclass
from pathlib import Path

from budgets.errors import CheckpointError
from runner.backends.opening import open_backend
from runner.ports.backend import Segment
from runner.ports.trial import TrialConfig
from runner.trainers.command.driver import driver


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
