# mypy: disable-error-code="misc, no-untyped-call"
"""Ray Tune's loggers for a sweep's trials, with run and group names that stay the same when the sweep goes on."""

import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.air.integrations.comet import CometLoggerCallback
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.tune.logger import LoggerCallback
from ray.tune.logger.aim import AimLoggerCallback
from ray.tune.logger.tensorboardx import TBXLoggerCallback

from planner.config.cluster import TrackingSection

STEP = "training_iteration"  # as Tune calls it
SWEEP_TAG = "rlplan.sweep"
MOST_CHARACTERS = 5000  # of a tag's value in MLflow
MOST_OPEN = 16  # runs of W&B, each of which has threads and files of its own


@dataclass(eq=False)
class LoggedRun:
    """A run of a tracker's as Tune's loggers know a trial; no other run of any database has its name."""

    trial_id: str
    group: str  # the sweep's
    config: dict[str, Any]
    folder: Path  # of all runs
    checkpoint: None = None  # trackers get none

    def __str__(self) -> str:
        return self.trial_id

    @property
    def evaluated_params(self) -> dict[str, Any]:
        """What tells the trial from others."""
        return self.config

    @property
    def experiment_dir_name(self) -> str:
        """The sweep, as those call it that name no group."""
        return self.group

    @property
    def local_experiment_path(self) -> str:
        """Where loggers of files write."""
        return str(self.folder)

    @property
    def local_path(self) -> str:
        """Where they write of this run."""
        return str(self.folder / self.trial_id)

    path = local_path

    def init_local_path(self) -> None:
        """Make that folder."""
        Path(self.local_path).mkdir(parents=True, exist_ok=True)

    def get_ray_actor_ip(self) -> None:
        """Return no address: a trial may have had several workers."""


def open_logger(section: TrackingSection, group: str) -> LoggerCallback:
    """Return the logger of the tracker that the section names, ready for runs."""
    logger: LoggerCallback
    match section.to:
        case "mlflow":
            logger = MlflowLogger(experiment_name=section.project, tags={SWEEP_TAG: group})
        case "wandb":
            logger = WandbLogger(section.project, group)
        case "comet":
            online = os.environ.get("COMET_START_ONLINE", "1") != "0"  # Comet's own word for it
            logger = CometLoggerCallback(online, tags=[group], project_name=section.project)
        case "aim":
            logger = AimLoggerCallback(experiment_name=group)
        case _:
            logger = TBXLoggerCallback()
    logger.setup()
    return logger


class MlflowLogger(MLflowLoggerCallback):
    """Goes on with the run of an earlier driver; words of a result are tags."""

    def log_trial_start(self, trial: Any) -> None:
        """Find the run of that name, or begin it."""
        client = self.mlflow_util._get_client()
        query = f"tags.trial_name = '{trial}' and tags.`{SWEEP_TAG}` = '{trial.group}'"
        runs = client.search_runs([self.mlflow_util.experiment_id], query, max_results=1)
        if runs:
            self._trial_runs[trial] = runs[0].info.run_id
            client.update_run(runs[0].info.run_id, "RUNNING")
        else:
            super().log_trial_start(trial)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Log numbers as metrics by step, words as tags."""
        words = {name: value for name, value in result.items() if isinstance(value, str)}
        numbers = {name: value for name, value in result.items() if name not in words}
        super().log_trial_result(iteration, trial, numbers)
        for name, value in words.items():
            self.mlflow_util._get_client().set_tag(self._trial_runs[trial], name, value[:MOST_CHARACTERS])


class WandbLogger(LoggerCallback):
    """Holds W&B's runs in this process: Tune's own logger would start a Ray here, and two of its actors a trial."""

    def __init__(self, project: str, group: str) -> None:
        """Begin no run yet; WANDB_API_KEY, WANDB_BASE_URL and WANDB_MODE count."""
        self._project, self._group = project, group
        self._runs: OrderedDict[Any, Any] = OrderedDict()

    def log_trial_start(self, trial: Any) -> None:
        """Begin a run, or go on with the one of that name; the one that was opened first makes room."""
        import wandb  # noqa: PLC0415 (who logs elsewhere needs none)

        if len(self._runs) >= MOST_OPEN:
            self._runs.popitem(last=False)[1].finish()
        self._runs[trial] = wandb.init(
            project=self._project,
            id=trial.trial_id,
            name=trial.trial_id,
            group=self._group,
            config=dict(trial.config),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Log numbers by step, which W&B passes over where the run has had it; words are the run's summary."""
        if trial not in self._runs:
            self.log_trial_start(trial)
        words = {name: value for name, value in result.items() if isinstance(value, str)}
        self._runs[trial].log({name: value for name, value in result.items() if name not in words}, step=result[STEP])
        self._runs[trial].summary.update(words)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Have what is under way sent."""
        if (run := self._runs.pop(trial, None)) is not None:
            run.finish(exit_code=int(failed))


def result_of(values: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Return values at an optimizer step as a result of Tune's."""
    return {**{name: value for name, value in values.items() if value is not None}, STEP: step}
