"""An Optuna pruner that stops trials by what they are predicted to score at the target, not by how they stand now."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial, TrialState

from planner.integrations.stopping import Mode, Stopping, TrialForecast
from planner.sweeping.chances import ALPHA

REASON = "pruned_because"  # the user attribute of a pruned trial

ComputeAt = Callable[[FrozenTrial, int], float]

logger = logging.getLogger(__name__)


class PredictedScorePruner(BasePruner):
    """Prunes a trial whose probability to be the best at the target has become small, given all curves of the study.

    What was decided and why is logged at INFO, and kept as the trial's user attribute `pruned_because`. The study's
    direction is heeded; trials that failed or were pruned count no more; the two best are never pruned.

    Args:
        target: The steps of a whole trial; or the compute of one, where `compute_at` is given.
        bounds: The least and greatest value that the objective can have, such as (0, 1), where it has such. Without
            them nothing is pruned before some trial has come half the way.
        alpha: The probability to be the best below which a trial is pruned.
        compute_at: The compute that a trial has used when it reports at a step; step + 1 if not given, since Optuna's
            steps count from 0.
    """

    def __init__(
        self,
        target: float,
        *,
        bounds: tuple[float, float] | None = None,
        alpha: float = ALPHA,
        compute_at: ComputeAt | None = None,
    ) -> None:
        self._make = partial(Stopping, target, bounds=bounds, alpha=alpha)
        self._compute_at = compute_at or _steps_done
        self._lock = Lock()  # threads that run one study share the pruner
        self._study: str | None = None
        self._taken: dict[int, tuple[datetime | None, TrialState, int]] = {}
        self._stopping = self._make()  # refuses what makes no sense as soon as it is given

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Judge whether the trial should be pruned; called by `Trial.should_prune`."""
        if trial.last_step is None:
            return False
        with self._lock:
            self._take_up(study, trial)
            why = self._stopping.hopeless(trial.number)
        if why is None:
            return False
        if REASON not in trial.user_attrs:
            logger.info("%s: %s", study.study_name, why.reason)
            # A pruner gets a copy of the trial: what stays goes to the storage, as from Optuna's own pruners.
            study._storage.set_trial_user_attr(trial._trial_id, REASON, {"reason": why.reason, **why.figures})
        return True

    def outlooks(self, study: optuna.Study) -> dict[int, TrialForecast]:
        """Return what is predicted of each trial that competes, by its number."""
        with self._lock:
            self._take_up(study)
            return {number: each for number, each in self._stopping.outlooks().items() if isinstance(number, int)}

    def _take_up(self, study: optuna.Study, trial: FrozenTrial | None = None) -> None:
        """Tell what is new in the study since the last time; another study is begun afresh."""
        trials = {each.number: each for each in study.get_trials(deepcopy=False)}
        if trial is not None:
            trials[trial.number] = trial
        if study.study_name != self._study or not self._continues(trials):
            mode: Mode = "max" if study.direction is optuna.study.StudyDirection.MAXIMIZE else "min"
            self._study, self._taken, self._stopping = study.study_name, {}, self._make(mode=mode)
        for number, each in trials.items():
            mark = (each.datetime_start, each.state, len(each.intermediate_values))
            if self._taken.get(number) != mark:
                self._tell(each)
                self._taken[number] = mark

    def _continues(self, trials: Mapping[int, FrozenTrial]) -> bool:
        """Whether the trials that are known are still those of the study, which may have been made anew."""
        return all(
            number in trials and (began is None or trials[number].datetime_start == began)
            for number, (began, _, _) in self._taken.items()
        )

    def _tell(self, trial: FrozenTrial) -> None:
        # Steps may come in any order, and a score at an earlier x would count as having been set back.
        values = sorted((self._compute_at(trial, step), score) for step, score in trial.intermediate_values.items())
        for x, score in values:
            self._stopping.add_score(trial.number, x, score)
        if trial.state is TrialState.COMPLETE:
            self._stopping.finish(trial.number)
        elif trial.state in (TrialState.FAIL, TrialState.PRUNED):
            self._stopping.drop(trial.number)


def _steps_done(trial: FrozenTrial, step: int) -> float:
    del trial
    return step + 1.0
