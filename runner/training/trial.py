"""A trial that is in memory, for a sweep's worker and for `rlplan train`: trained, recorded point by point, saved."""

from collections.abc import Iterator
from pathlib import Path

from runner.ports.backend import Point, Segment, TrainerBackend
from runner.training.points import PointsFile


class OpenTrial:
    """A backend that was started or restored, and the points of its trial."""

    def __init__(self, backend: TrainerBackend, folder: Path, step: int | None) -> None:
        """Take a backend that stands at a step: None before the base model is scored."""
        self.step = step
        self._backend = backend
        self._points = PointsFile(folder, step)

    @property
    def earlier(self) -> tuple[Point, ...]:
        """The points that were there when it was opened."""
        return self._points.earlier

    def train(self, to_step: int) -> Iterator[Point]:
        """Train up to a step, yielding each point once it lies in the folder."""
        for point in self._backend.advance(Segment(to_step)):
            self._points.add(point)
            self.step = point.optimizer_step
            yield point
        self.step = to_step

    def save(self) -> Path:
        """Save everything and return the checkpoint."""
        self._points.sync()
        return self._backend.checkpoint()

    def close(self) -> None:
        """Free the trial, saving nothing."""
        self._points.close()
        self._backend.close()
