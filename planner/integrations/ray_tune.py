"""A Ray Tune scheduler that stops trials by what they are predicted to score at the target."""

import json
import logging
import pickle
from collections.abc import Mapping
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.utils.util import flatten_dict

from budgets.errors import InputError
from planner.integrations.stopper import Mode, Stopping, TrialForecast
from planner.policy.actions import Why
from planner.policy.chances import ALPHA

RESULTS = "result.json"  # where Ray Tune's own logger keeps what a trial reported
ITERATION = "training_iteration"  # in every result

logger = logging.getLogger(__name__)


class PredictedScoreScheduler(FIFOScheduler):
    """Stops a trial whose probability to be the best at the target has become small: `TuneConfig(scheduler=…)`.

    After the run its `reasons` say what was stopped and why.

    Args:
        target: The length of a whole trial, in units of `time_attr`.
        time_attr: What trials report that grows as they train: iterations, or any measure of compute.
        metric: What is optimised, unless `TuneConfig` says it.
        mode: "max" or "min", unless `TuneConfig` says it.
        bounds: The least and greatest value that the metric can have, where it has such. Without them nothing is
            stopped before some trial has come half the way.
        alpha: The probability to be the best below which a trial is stopped.
        hard_stop: False pauses such trials instead (they need checkpoints): they go on when nothing else waits.
    """

    def __init__(
        self,
        target: float,
        *,
        time_attr: str = ITERATION,
        metric: str | None = None,
        mode: Mode | None = None,
        bounds: tuple[float, float] | None = None,
        alpha: float = ALPHA,
        hard_stop: bool = True,
    ) -> None:
        super().__init__()
        self._time_attr, self._metric, self._mode, self._hard_stop = time_attr, metric, mode, hard_stop
        self._make = partial(Stopping, target, bounds=bounds, alpha=alpha)
        self._stopping = self._make(mode=mode or "max")
        self.reasons: dict[str, Why] = {}  # why each stopped trial was stopped, by its id

    def outlooks(self) -> dict[str, TrialForecast]:
        """Return what is predicted of each trial that competes, by its id."""
        return {str(trial): outlook for trial, outlook in self._stopping.outlooks().items()}

    def set_search_properties(self, metric: str | None, mode: Mode | None, **spec: Any) -> bool:
        """Take the metric and the mode from `TuneConfig`, unless they were given here."""
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric, self._mode = self._metric or metric, self._mode or mode
        if not (self._metric and self._mode):
            raise InputError(
                f"the scheduler knows metric {self._metric!r} and mode {self._mode!r}: give both, to it or to "
                "tune.TuneConfig(metric=…, mode=…)"
            )
        if mode:
            self._stopping = self._make(mode=mode)
        return True

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Take up a trial, with what it reported before its experiment was restored."""
        name = trial.trial_id
        if name not in self._stopping:
            for result in _earlier_results(trial):
                self._take_up(name, result)
        if not trial.is_finished():
            self._stopping.reopen(name)
        elif trial.status == "ERROR":
            self._stopping.drop(name)
        else:
            self._stopping.finish(name)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Say whether a trial goes on after a result."""
        name = trial.trial_id
        if not self._take_up(name, result) or name in self.reasons:
            return str(TrialScheduler.CONTINUE)
        why = self._stopping.hopeless(name)
        if why is None:
            return str(TrialScheduler.CONTINUE)
        self.reasons[name] = why
        logger.info("%s", why.reason)
        if not self._hard_stop:
            return str(TrialScheduler.PAUSE)
        self._stopping.drop(name)
        return str(TrialScheduler.STOP)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Let a trial compete on that has ended, unless it was stopped here."""
        self._take_up(trial.trial_id, result)
        stopped = trial.trial_id in self.reasons and self._hard_stop
        (self._stopping.drop if stopped else self._stopping.finish)(trial.trial_id)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Leave out a trial that failed."""
        self._stopping.drop(trial.trial_id)

    on_trial_remove = on_trial_error

    def debug_string(self) -> str:
        """Say how many trials were stopped."""
        verb = "stopped" if self._hard_stop else "paused"
        return f"Using {type(self).__name__}: {len(self.reasons)} trials {verb}."

    def save(self, checkpoint_path: str) -> None:
        """Write all that is known."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.__dict__))

    def restore(self, checkpoint_path: str) -> None:
        """Read what `save` wrote."""
        self.__dict__.update(pickle.loads(Path(checkpoint_path).read_bytes()))

    def _take_up(self, name: str, result: Mapping[str, Any]) -> bool:
        """Take up a result; False when it has no score or no time."""
        x, score = result.get(self._time_attr), result.get(self._metric or "")
        if not (isinstance(x, Real) and isinstance(score, Real)):
            return False
        self._stopping.add_score(name, float(x), float(score))
        return True


predicted_score_scheduler = PredictedScoreScheduler  # the documented name


def _earlier_results(trial: Trial) -> list[dict[str, Any]]:
    """Return what a trial reported before its experiment was restored; Ray Tune restores everything but a scheduler."""
    if ITERATION not in (trial.last_result or {}):
        return []
    try:
        with trial.storage.storage_filesystem.open_input_stream(f"{trial.storage.trial_fs_path}/{RESULTS}") as stream:
            lines = stream.readall().decode("utf-8").splitlines()
    except OSError:
        logger.warning("%s: no %s with earlier results, its curve begins anew", trial.trial_id, RESULTS)
        return []
    return [flatten_dict(json.loads(line)) for line in lines]
