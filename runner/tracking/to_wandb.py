"""Weights & Biases: each trial is a run in the sweep's group; WANDB_API_KEY, WANDB_BASE_URL and WANDB_MODE count."""

from typing import Any

import wandb

from runner.tracking.port import News, Tracker

MOST_OPEN = 16  # runs, each of which has processes and sockets of its own


class WandbTracker(Tracker):
    """Holds runs open, since to open one takes seconds."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._runs: dict[str, Any] = {}

    def take(self, news: News) -> None:
        """Log values by step; a step that the run has already had is passed over by W&B itself."""
        run = self._runs.get(news.run)
        if run is None:
            run = self._runs[news.run] = wandb.init(
                project=self._project,
                id=news.run,
                name=news.run,
                group=news.group,
                config=dict(news.config),
                resume="allow",
                reinit="create_new",
                settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
            )
        for step, values in news.points:
            run.log(dict(values), step=step)
        run.summary.update(dict(news.summary))
        if news.ended:
            self._runs.pop(news.run).finish(exit_code=int(news.failed))
        elif len(self._runs) > MOST_OPEN:
            self._runs.pop(next(iter(self._runs))).finish()

    def close(self) -> None:
        """Have what is under way sent."""
        for run in self._runs.values():
            run.finish()
