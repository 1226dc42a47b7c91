"""What rlplan's reward reports from the processes of a trainer: its failures, and metrics beside the scores."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from budgets.errors import TrainingError
from runner.ports.backend import Point
from runner.ports.task import FAILED_SHARE, summed
from runner.ports.trial import TrialConfig
from runner.tasks.rewards import require_judged
from runner.trainers.following import Lines
from runner.trainers.rewarding import REPORTS


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
        failed = sum(each.get("failed", 0) for each in reports)
        validation, made = self._config.validation, point.optimizer_step - self._step
        scored = made * self._config.rollouts_per_step
        if point.score is not None:
            scored += validation.problems * validation.samples
        self._step = point.optimizer_step
        metrics: dict[str, Any] = summed(metric for each in reports for metric in each.get("metrics", ()))
        if failed:
            reason = next(each["reason"] for each in reports if each.get("failed"))
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
        for each in reports:
            if "kind" in each:
                raise TrainingError(each["kind"], each["reason"])
