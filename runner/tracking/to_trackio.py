"""Trackio: each trial is a run in the sweep's group; TRACKIO_SPACE_ID, TRACKIO_SERVER_URL or TRACKIO_DIR say where."""

import trackio

from runner.tracking.port import News, Tracker


class TrackioTracker(Tracker):
    """Opens a run for each news of it: trackio has one at a time in a process."""

    def __init__(self, project: str) -> None:
        self._project = project

    def take(self, news: News) -> None:
        """Log values by step, and what is known at the end with the last of them."""
        run = trackio.init(
            self._project,
            name=news.run,
            group=news.group,
            config={**news.config, **news.summary},
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        for step, values in news.points:
            run.log(dict(values), step)
        run.log(news.numbers, news.points[-1][0] if news.points else None)
        trackio.finish()
