"""The files of a run: config.json, metrics.jsonl as a sweep's trial has it too, curve.csv, checkpoints.

`curve.csv` is written anew from metrics.jsonl when a run is resumed, so that each step stands once in both.
"""

import csv
import fcntl
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from budgets.errors import CheckpointError, InputError, NotFoundError
from planner.disk import why
from planner.metrics import further_names
from rlplan.actions.train_request import RUNS, TrainingRun
from runner.ports.backend import Point
from runner.training import checkpoints
from runner.training.trial import COLUMNS, METRICS, read_points, replace_file, write_points

CONFIG, CURVE = "config.json", "curve.csv"
_STEP = re.compile(r"checkpoint-(\d+)\.\w+$")


class RunFolder:
    """An open run's folder, which one process holds at a time."""

    def __init__(self, path: Path) -> None:
        """Make the folder if need be, and hold it until `close`."""
        self.path = path
        self._further: tuple[str, ...] = ()  # scores that stand beside the mean
        self._is_new = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise InputError(
                f"the run's folder {path} cannot be used ({why(error, path)}); give another with --out"
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
        """Let go of the folder; one that was made for a run that could not begin goes away again."""
        os.close(self._lock)
        if self._is_new:
            with suppress(OSError):  # it holds a run
                if not (self.path / CONFIG).exists() and not (self.path / METRICS).stat().st_size:
                    (self.path / METRICS).unlink()
            with suppress(OSError):
                self.path.rmdir()

    def require_free(self) -> None:
        """Refuse a folder that holds a run already, and name the two ways out."""
        if checkpoints.exists(self.path) or any((self.path / name).exists() for name in (CONFIG, METRICS)):
            raise InputError(
                f"{self.path} holds a run already: go on with it by --resume, or give another folder with --out"
            )

    @contextmanager
    def adopted(self, pilot: Path, run: TrainingRun) -> Iterator[None]:
        """Copy what a sweep's trial saved, which stays as it is; an error within takes the copies back."""
        saved = _saved(pilot, run)
        copies = [self.path / METRICS]
        try:
            try:
                write_points(self.path, read_points(pilot))
                for path in saved:
                    copy = self.path / path.name
                    aside = copy.with_name(f"{copy.name}.writing")
                    copies += [aside, copy]
                    shutil.copyfile(path, aside)
                    aside.replace(copy)
            except OSError as error:
                raise CheckpointError(
                    f"the trial in {pilot} cannot be copied to {self.path}: {why(error, self.path)}"
                ) from error
            yield
        except BaseException:
            for path in copies:
                with suppress(OSError):
                    path.unlink()
            raise

    def begin(self, run: TrainingRun, points: Iterable[Point]) -> None:
        """Write the configuration, and the curve of the points that there are."""
        self._further = further_names(run.trial.validation.samples)
        heading = ("step", *COLUMNS, *(f"{name}{of}" for name in self._further for of in ("", "_standard_error")))
        scored = (self._curve_row(point) for point in points if point.score is not None)
        try:
            replace_file(self.path / CONFIG, run.model_dump_json(indent=2) + "\n")
            replace_file(self.path / CURVE, "".join(map(_csv, (heading, *scored))))
        except OSError as error:
            raise self._full(error) from error

    def add(self, point: Point) -> None:
        """Write a point to the curve if it is scored."""
        if point.score is None:
            return
        try:
            with (self.path / CURVE).open("a", encoding="utf-8") as file:
                file.write(_csv(self._curve_row(point)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._full(error) from error

    def _curve_row(self, point: Point) -> list[Any]:
        further = (point.further_scores.get(name, (None, None)) for name in self._further)
        return [
            point.optimizer_step,
            *(getattr(point, name) for name in COLUMNS),
            *(value for pair in further for value in pair),
        ]

    def _full(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"{self.path} cannot be written to ({why(error, self.path)})")


def stored_run(folder: Path) -> TrainingRun:
    """Read the config.json of a run."""
    path = folder / CONFIG
    try:
        return TrainingRun.model_validate_json(path.read_text(encoding="utf-8"))
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


def _saved(pilot: Path, run: TrainingRun) -> list[Path]:
    """Return the checkpoints of a sweep's trial that a run can go on from."""
    found = {path: int(match[1]) for path in sorted(pilot.glob("checkpoint-*")) if (match := _STEP.search(path.name))}
    if not found:
        moved = (
            "" if pilot.exists() else "; it is not there: where its sweep's folder was moved, name the trial in that"
        )
        raise NotFoundError(
            f"there is no trial with a checkpoint in {pilot}: give the folder of a sweep's trial{moved}"
        )
    last = max(found.values())
    if last >= run.update_steps:
        raise InputError(
            f"the trial in {pilot} has made {last:,} updates already, and --steps is {run.update_steps:,}: give more "
            "than that"
        )
    return list(found)


def _csv(row: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue()
