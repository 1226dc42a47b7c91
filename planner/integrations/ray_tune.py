"""A Ray Tune scheduler that stops trials by what they are predicted to score at the target.

Ray is imported when the scheduler is made, not with this module. The class is an attribute of the module all the same,
made when it is first looked up, so that whatever pickles a scheduler finds it.
"""

import json
import logging
import pickle
from collections.abc import Callable, Mapping
from functools import cache, partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError
from planner.integrations.foresight import Foresight
from planner.integrations.stopping import Mode, Outlook, Stopping
from planner.sweeping.actions import Why
from planner.sweeping.chances import ALPHA

if TYPE_CHECKING:
    from ray.tune.experiment import Trial
    from ray.tune.schedulers import TrialScheduler

CLASS = "PredictedScoreScheduler"
RESULTS = "result.json"  # where Ray Tune's own logger keeps what a trial reported
ITERATION = "training_iteration"  # in every result

logger = logging.getLogger(__name__)


def predicted_score_scheduler(
    target: float,
    *,
    time_attr: str = ITERATION,
    metric: str | None = None,
    mode: Mode | None = None,
    bounds: tuple[float, float] | None = None,
    alpha: float = ALPHA,
    hard_stop: bool = True,
    foresight: Foresight | None = None,
) -> "TrialScheduler":
    """Return a scheduler for `tune.TuneConfig(scheduler=…)`; after the run its `reasons` say what was stopped and why.

    Args:
        target: The length of a whole trial, in units of `time_attr`.
        time_attr: What trials report that grows as they train: iterations, or any measure of compute.
        metric: What is optimised, unless `TuneConfig` says it.
        mode: "max" or "min", unless `TuneConfig` says it.
        bounds: The least and greatest value that the metric can have, where it has such. Without them nothing is
            stopped before some trial has come half the way.
        alpha: The probability to be the best below which a trial is stopped.
        hard_stop: False pauses such trials instead (they need checkpoints): they go on when nothing else waits.
        foresight: What carries curves to the target; each curve by itself if not given.
    """
    make = partial(Stopping, target, bounds=bounds, alpha=alpha, foresight=foresight)
    scheduler: TrialScheduler = _scheduler_class()(Rule(make, time_attr), metric, mode, hard_stop)
    return scheduler


class Rule:
    """What the scheduler knows, free of Ray: results go in, and reasons to stop come out."""

    def __init__(self, make: Callable[..., Stopping], time_attr: str) -> None:
        """Make what decides; which way is up may be told later."""
        self.time_attr, self.metric = time_attr, ""
        self.reasons: dict[str, Why] = {}
        self.stopping, self._make = make(), make

    def optimises(self, metric: str, mode: Mode) -> None:
        """Take up which metric counts, before anything runs."""
        self.metric, self.stopping = metric, self._make(mode=mode)

    def told(self, trial: str, result: Mapping[str, Any]) -> bool:
        """Take up a result; False when it has no score or no time."""
        x, score = result.get(self.time_attr), result.get(self.metric)
        if not (isinstance(x, Real) and isinstance(score, Real)):
            return False
        self.stopping.told(trial, float(x), float(score))
        return True

    def hopeless(self, trial: str) -> bool:
        """Say whether a trial is to be stopped, and keep the reason."""
        why = self.stopping.hopeless(trial)
        if why is not None:
            self.reasons[trial] = why
            logger.info("%s", why.reason)
        return why is not None

    def outlooks(self) -> dict[str, Outlook]:
        """Return what is predicted of each trial that competes, by its id."""
        return {str(trial): each for trial, each in self.stopping.outlooks().items()}


def __getattr__(name: str) -> Any:
    if name == CLASS:
        return _scheduler_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _scheduler_class() -> Any:
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler  # noqa: PLC0415

    class PredictedScoreScheduler(FIFOScheduler):
        """Stops a trial whose probability to be the best at the target has become small."""

        def __init__(self, rule: Rule, metric: str | None, mode: Mode | None, hard_stop: bool) -> None:
            super().__init__()
            self._rule, self._metric, self._mode, self._hard_stop = rule, metric, mode, hard_stop
            if metric and mode:
                rule.optimises(metric, mode)

        @property
        def reasons(self) -> dict[str, Why]:
            """Why each stopped trial was stopped, by its id."""
            return self._rule.reasons

        def outlooks(self) -> dict[str, Outlook]:
            """Return what is predicted of each trial that competes, by its id."""
            return self._rule.outlooks()

        def set_search_properties(self, metric: str | None, mode: Mode | None, **spec: Any) -> bool:
            del spec
            if (self._metric and metric) or (self._mode and mode):
                return False
            self._metric, self._mode = self._metric or metric, self._mode or mode
            if not (self._metric and self._mode):
                raise InputError(
                    f"the scheduler knows metric {self._metric!r} and mode {self._mode!r}: give both, to it or to "
                    "tune.TuneConfig(metric=…, mode=…)"
                )
            if not self._rule.metric:
                self._rule.optimises(self._metric, self._mode)
            return True

        def on_trial_add(self, tune_controller: Any, trial: "Trial") -> None:
            del tune_controller
            name = trial.trial_id
            if name not in self._rule.stopping:
                for result in _earlier_results(trial):
                    self._rule.told(name, result)
            if trial.is_finished():
                self._leave(name, dropped=trial.status == "ERROR")
            else:
                self._rule.stopping.returned(name)

        def on_trial_result(self, tune_controller: Any, trial: "Trial", result: dict[str, Any]) -> str:
            del tune_controller
            name = trial.trial_id
            if not self._rule.told(name, result) or name in self.reasons or not self._rule.hopeless(name):
                return str(TrialScheduler.CONTINUE)
            if self._hard_stop:
                self._rule.stopping.dropped(name)
                return str(TrialScheduler.STOP)
            return str(TrialScheduler.PAUSE)

        def on_trial_complete(self, tune_controller: Any, trial: "Trial", result: dict[str, Any]) -> None:
            del tune_controller
            self._rule.told(trial.trial_id, result)
            self._leave(trial.trial_id, dropped=trial.trial_id in self.reasons and self._hard_stop)

        def on_trial_error(self, tune_controller: Any, trial: "Trial") -> None:
            del tune_controller
            self._leave(trial.trial_id, dropped=True)

        def on_trial_remove(self, tune_controller: Any, trial: "Trial") -> None:
            del tune_controller
            self._leave(trial.trial_id, dropped=True)

        def debug_string(self) -> str:
            verb = "stopped" if self._hard_stop else "paused"
            return f"Using {CLASS}: {len(self.reasons)} trials {verb}."

        def save(self, checkpoint_path: str) -> None:
            Path(checkpoint_path).write_bytes(pickle.dumps(self.__dict__))

        def restore(self, checkpoint_path: str) -> None:
            self.__dict__.update(pickle.loads(Path(checkpoint_path).read_bytes()))

        def _leave(self, name: str, *, dropped: bool) -> None:
            (self._rule.stopping.dropped if dropped else self._rule.stopping.finished)(name)

    PredictedScoreScheduler.__module__, PredictedScoreScheduler.__qualname__ = __name__, CLASS
    return PredictedScoreScheduler


def _earlier_results(trial: "Trial") -> list[dict[str, Any]]:
    """Return what a trial reported before its experiment was restored; Ray Tune restores everything but a scheduler."""
    from ray.tune.utils.util import flatten_dict  # noqa: PLC0415

    if ITERATION not in (trial.last_result or {}):
        return []
    try:
        with trial.storage.storage_filesystem.open_input_stream(f"{trial.storage.trial_fs_path}/{RESULTS}") as stream:
            lines = stream.readall().decode("utf-8").splitlines()
    except OSError:
        logger.warning("%s: no %s with earlier results, its curve begins anew", trial.trial_id, RESULTS)
        return []
    return [flatten_dict(json.loads(line)) for line in lines]
