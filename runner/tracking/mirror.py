"""What a tracker has not had yet of a sweep, read from its database: what is not sent now is still there later."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from ray.tune.logger import LoggerCallback
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from planner.store import Store
from planner.store.schema import Point, Recommendation, Sweep, SweepStatus, Trial
from planner.store.sweeps import sweep_named
from planner.view import TrialState
from runner.sweep.home import token_of
from runner.tracking.loggers import LoggedRun, result_of
from runner.training.trial import COLUMNS, replace_file

SENT, RUNS = "tracking.json", "tracking"  # in the sweep's folder: what was sent, and what loggers of files write
MOST_POINTS = 1000  # of a run at a time
ENDED = (TrialState.FINISHED, TrialState.PRUNED, TrialState.FAILED)
ANSWER = (
    *("rollouts_per_prompt", "prompts_per_batch", "update_steps", "learning_rate", "recipe"),
    *("expected_score", "score_low", "score_high", "probability_best", "gpu_hours_to_target"),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """How far the tracker has a run."""

    step: int = -1
    summary: str = ""


_SENT = TypeAdapter(dict[str, Sent])


class Mirror:
    """Copies a sweep's rows to a tracker, each once; steps that are done again after a loss keep their first values."""

    def __init__(self, store: Store, sweep: str, folder: Path, opening: Callable[[str], LoggerCallback]) -> None:
        """Go on from where an earlier driver's mirror has come, as the sweep's folder says."""
        self._store, self._sweep, self._folder, self._opening = store, sweep, folder, opening
        self._logger: LoggerCallback | None = None  # one that cannot be opened now may be later
        self._runs: dict[str, LoggedRun] = {}  # that are open
        self._sent: dict[str, Sent] = {}
        with suppress(OSError, ValueError):
            self._sent = _SENT.validate_json((folder / SENT).read_bytes())

    def copy(self) -> None:
        """Send all that is new; an error of the tracker's ends it, and the next call goes on from there."""
        with self._store.read() as session:
            sweep = sweep_named(session, self._sweep)
            group = f"{sweep.name}-{token_of(sweep)[:4]}"
        self._logger = self._logger or self._opening(group)
        while self._round(self._logger):
            pass

    def close(self) -> None:
        """Have every run that is open sent."""
        for run in self._runs.values():
            assert self._logger is not None
            self._logger.log_trial_end(run)

    def _round(self, logger: LoggerCallback) -> bool:
        """Send what is new, of each run so much at a time; return whether anything was."""
        with self._store.read() as session:
            unsent = [news for news in self._news(session) if self._is_new(news)]
        try:
            for news in unsent:
                self._take(logger, news)
        finally:
            replace_file(self._folder / SENT, json.dumps({run: asdict(sent) for run, sent in self._sent.items()}))
        return bool(unsent)

    def _is_new(self, news: "News") -> bool:
        sent = self._sent.get(news.run.trial_id, Sent())
        return news.last_step > sent.step or _written(news.summary) != sent.summary

    def _take(self, logger: LoggerCallback, news: "News") -> None:
        """Send a run's next points, which are read only now: a tracker is slow, and runs are many."""
        name = news.run.trial_id
        if name not in self._runs:
            logger.log_trial_start(news.run)
        run = self._runs.setdefault(name, news.run)
        step = self._sent.get(name, Sent()).step
        points = []
        if news.trial is not None:
            with self._store.read() as session:
                points = _points(session, news.trial, step)
        for step, values in points:
            logger.log_trial_result(step, run, result_of(values, step))
        logger.log_trial_result(max(0, step), run, result_of(news.summary, max(0, step)))
        self._sent[name] = Sent(step, _written(news.summary))
        if news.ended:
            logger.log_trial_end(self._runs.pop(name), failed=news.failed)

    def _news(self, session: Session) -> Iterator["News"]:
        """Yield the sweep's own run and that of each trial, without its points."""
        sweep = sweep_named(session, self._sweep)
        group = f"{sweep.name}-{token_of(sweep)[:4]}"
        config = {"policy": sweep.policy, "seed": sweep.seed, "pilot_gpu_hours": sweep.config["pilot_gpu_hours"]}
        ended, failed = sweep.status in (SweepStatus.FINISHED, SweepStatus.FAILED), sweep.status is SweepStatus.FAILED
        folder = self._folder / RUNS
        yield News(LoggedRun(group, group, config, folder), None, -1, _answer(session, sweep), ended, failed)
        newest = select(Point.trial_id, func.max(Point.optimizer_step)).group_by(Point.trial_id)
        newest = newest.join(Trial, Trial.id == Point.trial_id).where(Trial.sweep_id == sweep.id)
        steps = {trial: int(step) for trial, step in session.execute(newest)}
        for trial in session.scalars(select(Trial).where(Trial.sweep_id == sweep.id).order_by(Trial.id)):
            summary = {"state": str(trial.state), "gpu_hours_spent": trial.gpu_hours_spent}
            run = LoggedRun(f"{group}-{trial.name}", group, _config(trial), folder)
            ended, failed = trial.state in ENDED, trial.state is TrialState.FAILED
            yield News(run, trial.id, steps.get(trial.id, -1), summary, ended, failed)


@dataclass(frozen=True, slots=True)
class News:
    """What a tracker may not have had of a run: a trial's, or the sweep's own, which has its answer as a summary."""

    run: LoggedRun
    trial: int | None
    last_step: int
    summary: Mapping[str, Any]  # plain values, the state among them
    ended: bool
    failed: bool


def _answer(session: Session, sweep: Sweep) -> dict[str, Any]:
    """Return a sweep's state, and what is recommended once something is."""
    query = select(Recommendation).where(Recommendation.sweep_id == sweep.id).order_by(Recommendation.id.desc())
    answer = session.scalars(query.limit(1)).first()
    state = {"state": str(sweep.status)}
    return state if answer is None else state | {name: getattr(answer, name) for name in ANSWER}


def _points(session: Session, trial: int, after: int) -> list[tuple[int, dict[str, float]]]:
    """Read a trial's next values, the newest attempt's of each step."""
    query = select(Point).where(Point.trial_id == trial, Point.optimizer_step > after)
    rows = session.scalars(query.order_by(Point.optimizer_step, Point.attempt).limit(MOST_POINTS))
    return list({row.optimizer_step: (row.optimizer_step, _values(row)) for row in rows}.values())


def _values(row: Point) -> dict[str, float]:
    values = {name: getattr(row, name) for name in COLUMNS} | (row.metrics or {}) | (row.further_scores or {})
    return {
        name: float(value) for name, value in values.items() if isinstance(value, int | float) and math.isfinite(value)
    }


def _config(trial: Trial) -> dict[str, Any]:
    """Return what tells a trial from others."""
    columns = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "recipe", "seed")
    task, trainer = trial.config.get("task") or {}, trial.config.get("trainer") or {}
    also = {"task": task.get("name"), "model": task.get("model"), "trainer": trainer.get("name", "builtin")}
    axes = {str(name): str(value) for name, value in trial.axes}
    return {name: getattr(trial, name) for name in columns} | also | axes


def _written(summary: Mapping[str, Any]) -> str:
    return json.dumps(summary, sort_keys=True)
