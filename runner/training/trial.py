"""A trial that is in memory, for a sweep's worker: trained, timed by phase, recorded point by point, saved."""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from budgets.errors import CheckpointError
from planner.disk import why
from runner.ports.backend import Point, Segment, TrainerBackend, never

METRICS = "metrics.jsonl"
COLUMNS = ("rollouts", "tokens", "seconds", "gpu_hours", "score", "score_standard_error")
_ASIDE = (".writing", ".cutting")  # endings of files that are renamed once they are whole


class Stopwatch:
    """Adds up the seconds of each phase since it was last read."""

    def __init__(self) -> None:
        self._phases: dict[str, float] = {}
        self._since = monotonic()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge the time spent inside to a phase."""
        began = monotonic()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + monotonic() - began

    def read(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the last reading, those of each phase among them, and begin anew."""
        now = monotonic()
        elapsed, phases = now - self._since, self._phases
        self._since, self._phases = now, {}
        return elapsed, phases


class PointsFile:
    """Every point of a trial up to where it stands, so that none is lost with the process that made it."""

    def __init__(self, folder: Path, step: int | None) -> None:
        """Open the file of a trial that stands at a step, or before its first score; what lies beyond is cut."""
        self._path = folder / METRICS
        with _writing(self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self.earlier = tuple(p for p in read_points(folder) if step is not None and p.optimizer_step <= step)
            write_points(folder, self.earlier)
            self._file = self._path.open("a", encoding="utf-8")

    def add(self, point: Point) -> None:
        """Append a point; a killed process leaves it in the operating system's hands."""
        with _writing(self._path):
            self._file.write(_line(point))
            self._file.flush()

    def sync(self) -> None:
        """Put everything on the disk: a checkpoint must not know of steps that the file does not."""
        with _writing(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # what could not be flushed has been reported already
            self._file.close()


def read_points(folder: Path) -> list[Point]:
    """Return the points in a trial's folder; lines that a crash has torn are passed over."""
    points = []
    with suppress(FileNotFoundError):
        for line in (folder / METRICS).read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                values = json.loads(line)
                point = Point(
                    optimizer_step=values["step"],
                    **{name: values[name] for name in COLUMNS},
                    metrics=values["metrics"],
                    flags=tuple(values["flags"]),
                    further_scores={
                        name: (pair[0], pair[1]) for name, pair in values.get("further_scores", {}).items()
                    },
                )
                points.append(point)
    return points


def write_points(folder: Path, points: Sequence[Point]) -> None:
    """Make these the points in a trial's folder."""
    replace_file(folder / METRICS, "".join(map(_line, points)))


def replace_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file so that it is the old or the new one, whole, whatever happens."""
    aside = path.with_name(f"{path.name}.writing")
    try:
        with open(aside, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def remove_aside_files(folder: Path) -> None:
    """Remove what a killed process, or a full disk, left half-written."""
    for path in folder.glob("*"):
        if path.suffix in _ASIDE:
            with suppress(OSError):
                path.unlink()


def _line(point: Point) -> str:
    record = {
        "step": point.optimizer_step,
        **{name: getattr(point, name) for name in COLUMNS},
        "flags": list(point.flags),
        "metrics": point.metrics,
        **({"further_scores": point.further_scores} if point.further_scores else {}),
    }
    return json.dumps(_finite(record), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """Write what is not finite as null: JSON has no word for it, and the flags tell of it."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written ({why(error, path)}); the last checkpoint stands") from error


class OpenTrial:
    """A backend that was started or restored, and the points of its trial."""

    def __init__(self, backend: TrainerBackend, folder: Path, step: int | None) -> None:
        """Take a backend that stands at a step: None before the base model is scored."""
        self.step = step
        self._backend = backend
        self._folder = folder
        self._points = PointsFile(folder, step)

    @property
    def earlier(self) -> tuple[Point, ...]:
        """The points that were there when it was opened."""
        return self._points.earlier

    def train(
        self, to_step: int, stopping: Callable[[], bool] = never, update_seconds: float | None = None, reach: int = 0
    ) -> Iterator[Point]:
        """Train up to a step, or until it is to stop, yielding each point once it lies in the folder."""
        for point in self._backend.advance(Segment(to_step, stopping, update_seconds, reach)):
            self._points.add(point)
            self.step = point.optimizer_step
            yield point

    @property
    def saves_itself(self) -> bool:
        """Whether checkpoints are made while it trains, by whoever trains it."""
        return self._backend.saves_itself

    def save(self) -> Path:
        """Save everything and return the checkpoint; the trial then stands there, and what lies beyond is forgotten."""
        self._points.sync()
        saved = self._backend.checkpoint()
        if self.step is not None and saved.step < self.step:
            self._points.close()
            self._points = PointsFile(self._folder, saved.step)
        self.step = saved.step
        return saved.path

    def close(self) -> None:
        """Free the trial, saving nothing."""
        self._points.close()
        self._backend.close()
