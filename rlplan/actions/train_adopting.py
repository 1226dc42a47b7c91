"""A pilot of a sweep becomes a run of its own: its checkpoints and points are copied, and the trial stays as it is."""

import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from budgets.errors import CheckpointError, InputError, NotFoundError
from rlplan.actions.train_folder import RunFolder
from rlplan.actions.train_request import Run
from runner.ports.backend import Point
from runner.sweep.worker_files import POINTS, point_from

_STEP = re.compile(r"checkpoint-(\d+)\.\w+$")


class Adopted:
    """What was copied into a run's folder, which can be taken back as long as the run has not begun."""

    def __init__(self, folder: RunFolder) -> None:
        """Nothing has been copied yet."""
        self._folder = folder
        self._files: list[Path] = []

    def copy(self, pilot: Path, run: Run) -> None:
        """Copy what a trial has saved; whether its configuration is the run's is checked when it is restored."""
        found = {
            path: int(match[1]) for path in sorted(pilot.glob("checkpoint-*")) if (match := _STEP.search(path.name))
        }
        if not found:
            raise NotFoundError(f"there is no trial with a checkpoint in {pilot}: give the folder of a sweep's trial")
        last = max(found.values())
        if last >= run.update_steps:
            raise InputError(
                f"the trial in {pilot} has made {last:,} updates already, and --steps is {run.update_steps:,}: give "
                "more than that"
            )
        try:
            self._files.append(self._folder.keep(_points(pilot)))
            for path in found:
                copied = self._folder.path / path.name
                aside = copied.with_name(f"{path.name}.writing")
                self._files += [aside, copied]
                shutil.copyfile(path, aside)
                os.replace(aside, copied)
        except OSError as error:
            self.forget()
            raise CheckpointError(
                f"the trial in {pilot} cannot be copied to {self._folder.path}: {error.strerror or error}"
            ) from error

    def forget(self) -> None:
        """Take it back."""
        for path in self._files:
            with suppress(OSError):
                path.unlink()


def _points(pilot: Path) -> list[Point]:
    points: list[Point] = []
    with suppress(FileNotFoundError):
        for line in (pilot / POINTS).read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                points.append(point_from(json.loads(line)))
            except (ValueError, TypeError, KeyError):
                break  # torn by a crash
    return points
