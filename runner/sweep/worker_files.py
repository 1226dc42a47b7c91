"""The files that a worker keeps in a trial's folder beside its checkpoints: the points and the log."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from budgets.errors import CheckpointError
from runner.ports.backend import Point

POINTS = "points.jsonl"
LOG = "worker.log"
TAIL_CHARACTERS = 2000
_ASIDE = (".writing", ".cutting")  # endings of files that are renamed once they are whole


def point_from(values: dict[str, Any]) -> Point:
    """Return a point from its JSON."""
    further = {name: tuple(pair) for name, pair in values.get("further_scores", {}).items()}
    return Point(**{**values, "flags": tuple(values["flags"]), "further_scores": further})


class PointsFile:
    """Every point of a trial up to where it stands, so that none is lost with the worker that made it."""

    def __init__(self, folder: Path, step: int | None) -> None:
        """Open the file of a trial that stands at a step, or before its first score; what lies beyond is cut."""
        self._path = folder / POINTS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.earlier = tuple(point for point in self._read() if step is not None and point.optimizer_step <= step)
            self._write_anew(self.earlier)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise _cannot_write(self._path, error) from error

    def add(self, point: Point) -> None:
        """Append a point; a killed process leaves it in the operating system's hands."""
        try:
            self._file.write(json.dumps(asdict(point)) + "\n")
            self._file.flush()
        except OSError as error:
            raise _cannot_write(self._path, error) from error

    def sync(self) -> None:
        """Have everything on the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _cannot_write(self._path, error) from error

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # what could not be flushed has been reported already
            self._file.close()

    def _read(self) -> Iterator[Point]:
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield point_from(json.loads(line))
            except (ValueError, TypeError, KeyError):
                return  # torn by a crash: what follows it was never synced

    def _write_anew(self, points: tuple[Point, ...]) -> None:
        aside = self._path.with_suffix(".cutting")
        with aside.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(point)) + "\n" for point in points)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._path)


def remove_aside_files(folder: Path) -> None:
    """Remove what a killed process, or a full disk, left half-written."""
    for path in folder.glob("*"):
        if path.suffix in _ASIDE:
            with suppress(OSError):
                path.unlink()


class TrialLog:
    """What Python code prints and warns while a trial runs goes into the trial's folder.

    The streams outlive a trial, because loggers keep the one that they found when they were made.
    """

    def __init__(self) -> None:
        self._stream = _Redirected()
        self._path: Path | None = None

    @contextmanager
    def of(self, folder: Path) -> Iterator[None]:
        """Send stdout and stderr of this process to a trial's log."""
        self._path = folder / LOG
        before = sys.stdout, sys.stderr
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            self._stream.target = self._path.open("a", encoding="utf-8", errors="replace", buffering=1)
        sys.stdout = sys.stderr = self._stream
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            target, self._stream.target = self._stream.target, None
            if target is not None:
                with suppress(OSError):
                    target.close()

    def tail(self) -> str:
        """Return the end of the newest trial's log."""
        if self._path is None:
            return ""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4 * TAIL_CHARACTERS))  # a character is 4 bytes at most
            return file.read().decode("utf-8", errors="replace")[-TAIL_CHARACTERS:]
        return ""


class _Redirected(io.TextIOBase):
    """A stream whose target comes and goes."""

    def __init__(self) -> None:
        self.target: TextIO | None = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # a log that cannot be written must not end a trial
            (self.target or sys.__stderr__ or io.StringIO()).write(text)
        return len(text)


def _cannot_write(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{path} cannot be written ({error.strerror or error}); the last checkpoint stands")
