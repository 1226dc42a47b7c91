"""The files of a run: config.json, a line of metrics.jsonl for each point, curve.csv of the scored ones, checkpoints.

A line is written and flushed as its point comes. When a run is resumed, lines beyond the restored step are cut by
writing the rest aside and renaming it, so that each step stands once whatever happened in between.
"""

import contextlib
import csv
import fcntl
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TextIO

from pydantic import ValidationError

from budgets.errors import CheckpointError, InputError, NotFoundError
from planner.metrics import further_names
from rlplan.actions.train_request import RUNS, Run
from runner.ports.backend import Point
from runner.training import checkpoints

CONFIG, METRICS, CURVE = "config.json", "metrics.jsonl", "curve.csv"
CURVE_COLUMNS = ("step", "rollouts", "tokens", "seconds", "gpu_hours", "score", "score_standard_error")


class RunFolder:
    """An open run's folder, which one process holds at a time."""

    def __init__(self, path: Path) -> None:
        """Make the folder if need be, and hold it until `close`."""
        self.path = path
        self._metrics: TextIO | None = None
        self._curve: TextIO | None = None
        self._further: tuple[str, ...] = ()  # scores that stand beside the mean
        self._is_new = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise InputError(
                f"the run's folder {path} cannot be used ({error.strerror}); give another with --out"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise InputError(
                f"another process is training in {path}: wait for it, or give another folder with --out"
            ) from error
        except OSError:  # some network file systems lock no folders: then nobody is kept out
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def require_free(self) -> None:
        """Refuse a folder that holds a run already, and name the two ways out."""
        if checkpoints.exists(self.path) or any((self.path / name).exists() for name in (CONFIG, METRICS)):
            raise InputError(
                f"{self.path} holds a run already: go on with it by --resume, or give another folder with --out"
            )

    def keep(self, points: Iterable[Point]) -> Path:
        """Write points that were made elsewhere, before the run begins, and return their file."""
        self._replace(METRICS, "".join(_line(_record(point)) for point in points))
        return self.path / METRICS

    def begin(self, run: Run, through_step: int) -> list[Point]:
        """Write the configuration, keep the lines up to a step, return their points, and make ready for more."""
        self._replace(CONFIG, run.model_dump_json(indent=2) + "\n")
        kept = [line for line in self._lines() if line["step"] <= through_step]
        points = [_point(line) for line in kept]
        self._replace(METRICS, "".join(_line(line) for line in kept))
        self._further = further_names(run.trial.validation.samples)
        scored = "".join(_csv(self._curve_row(point)) for point in points if point.score is not None)
        self._replace(CURVE, _csv((*CURVE_COLUMNS, *_with_errors(self._further))) + scored)
        self._metrics = (self.path / METRICS).open("a", encoding="utf-8")
        self._curve = (self.path / CURVE).open("a", encoding="utf-8")
        return points

    def add(self, point: Point) -> None:
        """Write a point and flush it."""
        try:
            _write(self._metrics, _line(_record(point)))
            if point.score is not None:
                _write(self._curve, _csv(self._curve_row(point)))
        except OSError as error:
            raise CheckpointError(
                f"step {point.optimizer_step} cannot be written to {self.path} ({error.strerror}): make room and go on "
                f"with --resume --out {self.path}"
            ) from error

    def sync(self) -> None:
        """Put the lines on the disk: a checkpoint must not know of steps that the files do not."""
        for file in (self._metrics, self._curve):
            if file is not None:
                os.fsync(file.fileno())

    def close(self) -> None:
        """Let go of the folder; one that was made for a run that could not begin goes away again."""
        for file in (self._metrics, self._curve):
            if file is not None:
                with contextlib.suppress(OSError):  # a full disk was reported when the line was written
                    file.close()
        os.close(self._lock)
        if self._is_new:
            with contextlib.suppress(OSError):  # it holds a run
                self.path.rmdir()

    def _curve_row(self, point: Point) -> list[Any]:
        further = (point.further_scores.get(name, (None, None)) for name in self._further)
        return [
            point.optimizer_step,
            *(getattr(point, name) for name in CURVE_COLUMNS[1:]),
            *(value for pair in further for value in pair),
        ]

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Return the whole lines; a kill may have torn the last one."""
        path = self.path / METRICS
        if not path.exists():
            return
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and isinstance(line.get("step"), int):
                    yield line

    def _replace(self, name: str, text: str) -> None:
        aside = self.path / f"{name}.writing"
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self.path / name)


def stored_run(folder: Path) -> Run:
    """Read the config.json of a run."""
    path = folder / CONFIG
    try:
        return Run.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no run in {folder} to resume{_others(folder)}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValidationError, UnicodeDecodeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is not text"
        raise InputError(
            f"{path} is no configuration of a run that this version of rlplan can read ({reason}); begin a new run "
            "with --out"
        ) from error


def _others(folder: Path) -> str:
    found = sorted(path.parent for path in RUNS.glob(f"*/{CONFIG}") if path.parent != folder)
    return "; there are " + ", ".join(map(str, found[:5])) + ": name one with --out" if found else ""


def _record(point: Point) -> dict[str, Any]:
    return {
        "step": point.optimizer_step,
        **{name: getattr(point, name) for name in CURVE_COLUMNS[1:]},
        "flags": list(point.flags),
        "metrics": point.metrics,
        **({"further_scores": point.further_scores} if point.further_scores else {}),
    }


def _point(line: Mapping[str, Any]) -> Point:
    return Point(
        optimizer_step=line["step"],
        **{name: line[name] for name in CURVE_COLUMNS[1:]},
        flags=tuple(line["flags"]),
        metrics=line["metrics"],
        further_scores={name: (pair[0], pair[1]) for name, pair in line.get("further_scores", {}).items()},
    )


def _with_errors(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from (name, f"{name}_standard_error")


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(_finite(record), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """Write what is not finite as null: JSON has no word for it, and the flags tell of it."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(row: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue()


def _write(file: TextIO | None, text: str) -> None:
    if file is None:
        raise RuntimeError("a run's folder has to begin before points are added")
    file.write(text)
    file.flush()
