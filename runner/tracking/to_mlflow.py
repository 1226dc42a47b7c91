"""MLflow: each trial is a run in the sweep's, in one experiment; MLFLOW_TRACKING_URI says where."""

import time
from typing import Any

import mlflow
from mlflow.entities import Metric, Param, RunTag

from runner.tracking.port import News, Tracker

NAME = "rlplan.run"
MOST_METRICS = 1000  # that MLflow takes at once
MOST_CHARACTERS = 5000  # of a tag's or a parameter's value


class MlflowTracker(Tracker):
    """Speaks with the tracking server alone: no run is "active" in this process."""

    def __init__(self, project: str) -> None:
        self._client = mlflow.MlflowClient()
        found = self._client.get_experiment_by_name(project)
        self._experiment = self._client.create_experiment(project) if found is None else found.experiment_id
        self._ids: dict[str, str] = {}

    def take(self, news: News) -> None:
        """Log values as metrics; numbers of the summary are metrics too, and the rest are tags."""
        run, now = self._id(news), int(time.time() * 1000)
        last = news.points[-1][0] if news.points else 0
        rows = [(step, values) for step, values in news.points]
        metrics = [
            Metric(name, value, now, step)
            for step, values in (*rows, (last, news.numbers))
            for name, value in values.items()
        ]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(run, metrics=metrics[start : start + MOST_METRICS])
        texts = {name: value for name, value in news.summary.items() if name not in news.numbers}
        self._client.log_batch(run, tags=[RunTag(name, _short(value)) for name, value in texts.items()])
        status = "FAILED" if news.failed else "FINISHED" if news.ended else "RUNNING"
        self._client.set_terminated(run, status) if news.ended else self._client.update_run(run, status)

    def _id(self, news: News) -> str:
        if news.run not in self._ids:
            found = self._client.search_runs([self._experiment], f"tags.`{NAME}` = '{news.run}'", max_results=1)
            if found:
                self._ids[news.run] = found[0].info.run_id
                return self._ids[news.run]
            tags: dict[str, Any] = {NAME: news.run, "rlplan.sweep": news.group}
            if news.group in self._ids:
                tags["mlflow.parentRunId"] = self._ids[news.group]
            run: str = self._client.create_run(self._experiment, tags=tags, run_name=news.run).info.run_id
            self._client.log_batch(run, params=[Param(name, _short(value)) for name, value in news.config.items()])
            self._ids[news.run] = run
        return self._ids[news.run]


def _short(value: object) -> str:
    return str(value)[:MOST_CHARACTERS]
