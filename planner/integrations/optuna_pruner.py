"""An Optuna pruner that stops trials by what they are predicted to score at the target, not by how they stand now."""

import logging
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import optuna
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial, TrialState

from planner.integrations.stopper import Mode, Stopping, TrialForecast
from planner.policy.chances import ALPHA

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
        self._compute_at = compute_at
        self._lock = Lock()  # threads that run one study share the pruner
        self._study: object = None
        self._taken: dict[int, object] = {}
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
            return {int(str(number)): outlook for number, outlook in self._stopping.outlooks().items()}

    def _take_up(self, study: optuna.Study, trial: FrozenTrial | None = None) -> None:
        """Take up what is new in the study since the last time; another study, or one made anew, begins afresh."""
        trials = {member.number: member for member in study.get_trials(deepcopy=False)}
        if trial is not None:
            trials[trial.number] = trial
        identity = study.study_name, trials[0].datetime_start if trials else None
        if identity != self._study:
            mode: Mode = "max" if study.direction is optuna.study.StudyDirection.MAXIMIZE else "min"
            self._study, self._taken, self._stopping = identity, {}, self._make(mode=mode)
        for number, member in trials.items():
            mark = member.state, len(member.intermediate_values)
            if self._taken.get(number) == mark:
                continue
            self._taken[number] = mark
            # Steps may come in any order, and a score at an earlier x would count as having been set back.
            for x, score in sorted(
                (step + 1.0 if self._compute_at is None else self._compute_at(member, step), score)
                for step, score in member.intermediate_values.items()
            ):
                self._stopping.add_score(number, x, score)
            if member.state is TrialState.COMPLETE:
                self._stopping.finish(number)
            elif member.state in (TrialState.FAIL, TrialState.PRUNED):
                self._stopping.drop(number)
