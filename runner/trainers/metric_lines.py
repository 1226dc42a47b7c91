"""Files that grow while they are read: what the lines of our own programs mean, and what our reward reports.

`{"step", "at_seconds"}` alone says that start-up is over and where it stands. `logs` are the trainer's own numbers,
`seconds` what was timed beside them, `scores` the validation: the scores of each problem's samples; `metrics` have our
names already.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from budgets.errors import TrainingError
from planner.logs.series import ours_of
from planner.logs.trainers import WHOLE_STEP, Trainer
from planner.metrics import mean_over
from runner.ports.backend import Point
from runner.ports.task import FAILED_SHARE, summed
from runner.ports.trial import TrialConfig
from runner.tasks.rewards import require_judged
from runner.trainers.driver import Reading
from runner.trainers.trial_reward import REPORTS

_POINT_FIELDS = ("response_tokens", "rollouts", "tokens_so_far", "output_tokens")  # fields of a point


class Lines:
    """The lines that a file has gained since it was last looked at; it may not be there yet, or begin anew."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        """Pass over the first `begin` bytes."""
        self._path = path
        self._read_bytes = begin
        self._half = b""

    def new(self) -> list[str]:
        """Return whole lines only: what is being written waits for its end."""
        with suppress(OSError), self._path.open("rb") as file:
            if self._path.stat().st_size < self._read_bytes:  # opened anew by the trainer
                self._read_bytes, self._half = 0, b""
            file.seek(self._read_bytes)
            added = file.read()
            self._read_bytes += len(added)
            *whole, self._half = (self._half + added).split(b"\n")
            return [line.decode("utf-8", errors="replace") for line in whole]
        return []


class LineSource:
    """Metrics in the lines of a file, by a function that knows what one means."""

    def __init__(self, path: Path, meaning: Callable[[str], Sequence[Reading]]) -> None:
        self._lines = Lines(path)
        self._meaning = meaning

    def read(self) -> list[Reading]:
        """Return what new lines say; one that says nothing is passed over."""
        return [reading for line in self._lines.new() for reading in self._meaning(line)]


def readings(line: str, trainer: Trainer, updates: int = 1) -> list[Reading]:
    """Return what a line says, where each of the trainer's steps is so many updates; a torn one says nothing."""
    with suppress(ValueError, KeyError, TypeError, OverflowError):
        row: Mapping[str, Any] = json.loads(line)
        numbers = {name: float(value) for name, value in row.get("logs", {}).items() if isinstance(value, int | float)}
        ours, seconds = ours_of(trainer, numbers)
        seconds.pop(WHOLE_STEP, None)
        metrics = {name: value for name, value in ours.items() if name not in _POINT_FIELDS} | row.get("metrics", {})
        score = error = None
        if groups := row.get("scores"):
            score, error = mean_over([sum(group) / len(group) for group in groups])
            metrics |= best_and_worst(groups)
        return [
            Reading(
                int(row["step"]) * updates,
                score,
                error,
                ours.get("response_tokens"),
                float(row["at_seconds"]),
                metrics,
                {**seconds, **row.get("seconds", {})},
                whole=bool(row.get("whole")),
            )
        ]
    return []


def best_and_worst(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return what else a validation says: the share of problems that one sample, and that every sample, got right."""
    return {
        "validation_best": sum(map(max, groups)) / len(groups),
        "validation_worst": sum(map(min, groups)) / len(groups),
    }


class RewardReports:
    """Those of one attempt, read as its points are made."""

    def __init__(self, config: TrialConfig, folder: Path, from_step: int) -> None:
        """Forget those of earlier attempts in the trial's folder."""
        shutil.rmtree(folder / REPORTS, ignore_errors=True)
        self._config, self._folder, self._step = config, folder / REPORTS, from_step
        self._files: dict[Path, Lines] = {}

    def counted(self, point: Point) -> Point:
        """Return the point with what was reported since the last one; TrainingError where too many failed."""
        reports = self._new()
        self._require(reports)
        failed = sum(report.get("failed", 0) for report in reports)
        validation, made = self._config.validation, point.optimizer_step - self._step
        scored = made * self._config.rollouts_per_step
        if point.score is not None:
            scored += validation.problems * validation.samples
        self._step = point.optimizer_step
        metrics: dict[str, Any] = summed(metric for report in reports for metric in report.get("metrics", ()))
        if failed:
            reason = next(report["reason"] for report in reports if report.get("failed"))
            require_judged(failed, scored, reason)
            share = failed / max(scored, failed)
            metrics |= {"reward_failures": float(failed), FAILED_SHARE: share, "notes": [reason]}
        return replace(point, metrics={**point.metrics, **metrics}) if metrics else point

    def cause_of(self, error: TrainingError) -> TrainingError:
        """Return why the trainer ended: the reward, where that could not be had."""
        try:
            self._require(self._new())
        except TrainingError as cause:
            return cause
        return error

    def _new(self) -> list[dict[str, Any]]:
        for path in sorted(self._folder.glob("*.jsonl")):
            self._files.setdefault(path, Lines(path))
        return [json.loads(line) for lines in self._files.values() for line in lines.new()]

    @staticmethod
    def _require(reports: list[dict[str, Any]]) -> None:
        for report in reports:
            if "kind" in report:
                raise TrainingError(report["kind"], report["reason"])
