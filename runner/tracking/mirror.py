"""What a tracker has not had yet of a sweep, read from its database: what is not sent now is still there later."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
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

    def __init__(self, store: Store, sweep: str, folder: Path, opening: Callable[[], Tracker]) -> None:
        """Go on from where an earlier driver's mirror has come, as the sweep's folder says."""
        self._store, self._sweep, self._opening = store, sweep, opening
        self._tracker: Tracker | None = None  # one that cannot be opened now may be later
        self._file = folder / SENT
        self._sent: dict[str, Sent] = {}
        with suppress(OSError, ValueError):
            self._sent = _SENT.validate_json(self._file.read_bytes())

    def copy(self) -> None:
        """Send all that is new; an error of the tracker's ends it, and the next call goes on from there."""
        self._tracker = self._tracker or self._opening()
        while self._round(self._tracker):
            pass

    def close(self) -> None:
        """Let go of the tracker."""
        if self._tracker is not None:
            self._tracker.close()

    def _round(self, tracker: Tracker) -> bool:
        """Send what is new, of each run so much at a time; return whether anything was."""
        with self._store.read() as session:
            runs = []
            for news, trial, step in self._runs(session):
                sent = self._sent.get(news.run, Sent())
                if step > sent.step or _written(news.summary) != sent.summary:
                    runs.append((news, trial))
        try:
            for news, trial in runs:
                self._take(tracker, news, trial)
        finally:
            replace_file(self._file, json.dumps({run: asdict(sent) for run, sent in self._sent.items()}))
        return bool(runs)

    def _take(self, tracker: Tracker, news: News, trial: int | None) -> None:
        """Send a run's news with its next points, which are read only now: a tracker is slow, and runs are many."""
        step = self._sent.get(news.run, Sent()).step
        if trial is not None:
            with self._store.read() as session:
                news = replace(news, points=_points(session, trial, step))
        tracker.take(news)
        step = news.points[-1][0] if news.points else step
        self._sent[news.run] = Sent(step, _written(news.summary))

    def _runs(self, session: Session) -> Iterator[tuple[News, int | None, int]]:
        """Yield the sweep's own run and that of each trial, without its points, and the trial with its last step."""
        sweep = sweep_named(session, self._sweep)
        group = f"{sweep.name}-{token_of(sweep)[:4]}"
        config = {"policy": sweep.policy, "seed": sweep.seed, "pilot_gpu_hours": sweep.config["pilot_gpu_hours"]}
        ended, failed = sweep.status in (SweepStatus.FINISHED, SweepStatus.FAILED), sweep.status is SweepStatus.FAILED
        yield News(group, group, config, [], _answer(session, sweep), ended, failed), None, -1
        newest = select(Point.trial_id, func.max(Point.optimizer_step)).group_by(Point.trial_id)
        newest = newest.join(Trial, Trial.id == Point.trial_id).where(Trial.sweep_id == sweep.id)
        steps = {trial: int(step) for trial, step in session.execute(newest)}
        for trial in session.scalars(select(Trial).where(Trial.sweep_id == sweep.id).order_by(Trial.id)):
            summary = {"state": str(trial.state), "gpu_hours_spent": trial.gpu_hours_spent}
            failed = trial.state is TrialState.FAILED
            news = News(f"{group}-{trial.name}", group, _config(trial), [], summary, trial.state in ENDED, failed)
            yield news, trial.id, steps.get(trial.id, -1)


def _answer(session: Session, sweep: Sweep) -> dict[str, Any]:
    """Return a sweep's state, and what is recommended once something is."""
    query = select(Recommendation).where(Recommendation.sweep_id == sweep.id).order_by(Recommendation.id.desc())
    answer = session.scalars(query.limit(1)).first()
    state = {"state": str(sweep.status)}
    return state if answer is None else state | {name: getattr(answer, name) for name in ANSWER}


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
