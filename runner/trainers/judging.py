"""What rlplan's reward tells of its failures in the processes of a trainer, which may well go on without a word."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from budgets.errors import TrainingError
from runner.ports.backend import Point
from runner.ports.trial import TrialConfig
from runner.tasks.rewards import require_judged
from runner.trainers.following import Lines
from runner.trainers.rewarding import FAILURES


class RewardFailures:
    """Those of one attempt, read as its points are made."""

    def __init__(self, config: TrialConfig, folder: Path, from_step: int) -> None:
        """Forget those of earlier attempts in the trial's folder."""
        shutil.rmtree(folder / FAILURES, ignore_errors=True)
        self._config, self._folder, self._step = config, folder / FAILURES, from_step
        self._files: dict[Path, Lines] = {}

    def counted(self, point: Point) -> Point:
        """Return the point with how many failed since the last one; TrainingError where they are too many."""
        told = self._new()
        self._require(told)
        failed = sum(each.get("failed", 0) for each in told)
        validation, made = self._config.validation, point.optimizer_step - self._step
        scored = made * self._config.rollouts_per_step
        if point.score is not None:
            scored += validation.problems * validation.samples
        self._step = point.optimizer_step
        if not failed:
            return point
        require_judged(failed, scored, told[0]["reason"])
        return replace(point, metrics={**point.metrics, "reward_failures": float(failed), "notes": [told[0]["reason"]]})

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
    def _require(told: list[dict[str, Any]]) -> None:
        for each in told:
            if "kind" in each:
                raise TrainingError(each["kind"], each["reason"])
