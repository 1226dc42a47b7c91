"""What a tracker has not had yet of a sweep, read from its database: what is not sent now is still there later."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from planner.store import Store
from planner.store.schema import Point, Recommendation, Sweep, SweepStatus, Trial
from planner.store.sweeps import sweep_named
from planner.trials import TrialState
from runner.sweep.home import token_of
from runner.tracking.port import News, Tracker
from runner.training.trial import COLUMNS, replace_file

SENT = "tracking.json"  # in the sweep's folder
MOST_POINTS = 1000  # of a run at a time
ENDED = (TrialState.FINISHED, TrialState.PRUNED, TrialState.FAILED)
ANSWER = (
    "rollouts_per_prompt",
    "prompts_per_batch",
    "update_steps",
    "learning_rate",
    "recipe",
    "expected_score",
    "score_low",
    "score_high",
    "probability_best",
    "gpu_hours_to_target",
)


@dataclass(frozen=True, slots=True)
class Sent:
    """How far the tracker has a run."""

    step: int = -1
    summary: str = ""


_SENT = TypeAdapter(dict[str, Sent])


class Mirror:
    """Copies a sweep's rows to a tracker, each once; steps that are done again after a loss keep their first values."""

    def __init__(self, store: Store, sweep: str, folder: Path, tracker: Tracker) -> None:
        """Go on from where an earlier driver's mirror has come, as the sweep's folder says."""
        self._store, self._sweep, self._tracker = store, sweep, tracker
        self._file = folder / SENT
        self._sent: dict[str, Sent] = {}
        with suppress(OSError, ValueError):
            self._sent = _SENT.validate_json(self._file.read_bytes())

    def copy(self) -> None:
        """Send all that is new; an error of the tracker's ends it, and the next call goes on from there."""
        while self._round():
            pass

    def close(self) -> None:
        """Let go of the tracker."""
        self._tracker.close()

    def _round(self) -> bool:
        """Send what is new, of each run so much at a time; return whether anything was."""
        with self._store.read() as session:
            found = list(self._news(session))
        try:
            for news, trial in found:
                self._take(news, trial)
        finally:
            replace_file(self._file, json.dumps({run: asdict(each) for run, each in self._sent.items()}))
        return bool(found)

    def _take(self, news: News, trial: int | None) -> None:
        """Send a run's news with its next points, which are read only now: a tracker is slow, and runs are many."""
        step = self._sent.get(news.run, Sent()).step
        if trial is not None:
            with self._store.read() as session:
                news = replace(news, points=_points(session, trial, step))
        self._tracker.take(news)
        step = news.points[-1][0] if news.points else step
        self._sent[news.run] = Sent(step, _written(news.summary))

    def _news(self, session: Session) -> Iterator[tuple[News, int | None]]:
        """Yield each run of which something is new, without its points, and its trial."""
        sweep = sweep_named(session, self._sweep)
        group = f"{sweep.name}-{token_of(sweep)[:4]}"
        trials = list(session.scalars(select(Trial).where(Trial.sweep_id == sweep.id).order_by(Trial.id)))
        newest = select(Point.trial_id, func.max(Point.optimizer_step)).group_by(Point.trial_id)
        newest = newest.join(Trial, Trial.id == Point.trial_id).where(Trial.sweep_id == sweep.id)
        last = {trial: int(step) for trial, step in session.execute(newest)}
        yield from self._of_sweep(session, sweep, group)
        for trial in trials:
            run = f"{group}-{trial.name}"
            sent = self._sent.get(run, Sent())
            summary = {"state": str(trial.state), "gpu_hours_spent": trial.gpu_hours_spent}
            if last.get(trial.id, -1) > sent.step or _written(summary) != sent.summary:
                failed = trial.state is TrialState.FAILED
                yield News(run, group, _config(trial), [], summary, trial.state in ENDED, failed), trial.id

    def _of_sweep(self, session: Session, sweep: Sweep, group: str) -> Iterator[tuple[News, None]]:
        """Yield the sweep's own run, where its state or its answer is another than before."""
        wanted = select(Recommendation).where(Recommendation.sweep_id == sweep.id).order_by(Recommendation.id.desc())
        answer = session.scalars(wanted.limit(1)).first()
        summary: dict[str, Any] = {"state": str(sweep.status)}
        if answer is not None:
            summary |= {name: getattr(answer, name) for name in ANSWER}
        if _written(summary) != self._sent.get(group, Sent()).summary:
            config = {"policy": sweep.policy, "seed": sweep.seed, "pilot_gpu_hours": sweep.config["pilot_gpu_hours"]}
            ended = sweep.status in (SweepStatus.FINISHED, SweepStatus.FAILED)
            yield News(group, group, config, [], summary, ended, sweep.status is SweepStatus.FAILED), None


def _points(session: Session, trial: int, after: int) -> list[tuple[int, dict[str, float]]]:
    """Read a trial's next values, the newest attempt's of each step."""
    wanted = select(Point).where(Point.trial_id == trial, Point.optimizer_step > after)
    rows = session.scalars(wanted.order_by(Point.optimizer_step, Point.attempt).limit(MOST_POINTS))
    return list({row.optimizer_step: (row.optimizer_step, _values(row)) for row in rows}.values())


def _values(row: Point) -> dict[str, float]:
    given = {name: getattr(row, name) for name in COLUMNS} | (row.metrics or {}) | (row.further_scores or {})
    return {
        name: float(value) for name, value in given.items() if isinstance(value, int | float) and math.isfinite(value)
    }


def _config(trial: Trial) -> dict[str, Any]:
    """Return what tells a trial from others."""
    own = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "recipe", "seed")
    task, trainer = trial.config.get("task") or {}, trial.config.get("trainer") or {}
    also = {"task": task.get("name"), "model": task.get("model"), "trainer": trainer.get("name", "builtin")}
    axes = {str(name): str(value) for name, value in trial.axes}
    return {name: getattr(trial, name) for name in own} | also | axes


def _written(summary: Mapping[str, Any]) -> str:
    return json.dumps(summary, sort_keys=True)
