"""Syne Tune's schedulers through their own interface: `suggest`, `on_trial_result`, `on_trial_complete`."""

from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Any

import numpy as np
import sklearn
from board import Levels, SweepState
from clock import Task
from syne_tune.backend.trial_status import Trial
from syne_tune.config_space import choice, randint
from syne_tune.optimizer.baselines import ASHA, BOHB, RandomSearch
from syne_tune.optimizer.scheduler import SchedulerDecision, TrialScheduler
from syne_tune.optimizer.schedulers.asha import AsynchronousSuccessiveHalving
from syne_tune.optimizer.schedulers.median_stopping_rule import MedianStoppingRule
from syne_tune.optimizer.schedulers.searchers.conformal.conformal_quantile_regression_searcher import (
    ConformalQuantileRegression,
)
from syne_tune.optimizer.schedulers.searchers.last_value_multi_fidelity_searcher import LastValueMultiFidelitySearcher
from syne_tune.optimizer.schedulers.single_objective_scheduler import SingleObjectiveScheduler

SCORE, LEVEL = "score", "level"
NAMES = ("asha", "hyperband", "cqr-asha", "cqr", "bohb", "median", "random")
BRACKETS = 3
REFITTED = 4  # trials between two fits of CQR's quantile regressions, half a second each; Syne Tune's own is 1
GROWN = 8  # beyond so many times REFITTED they are refitted when the trials have grown by this part
sklearn.set_config(assume_finite=True, skip_parameter_validation=True)


class SyneTune:
    """One scheduler. Axes of numbers are integers (places on the axis), axes of words are categories."""

    def __init__(self, name: str, board: SweepState, levels: Levels, workers: int, seed: int) -> None:
        """Open a scheduler by its short name."""
        self._name = name
        self._board, self._levels, self._rng = board, levels, np.random.default_rng(seed)
        self._scheduler = self._opened(name, seed)
        self._trials: dict[int, Trial] = {}
        self._stopped: set[Hashable] = set()

    def _opened(self, name: str, seed: int) -> TrialScheduler:
        axes = self._board.axes
        space: dict[str, Any] = {
            axis: randint(0, len(values) - 1) if self._board.is_ordered(axis) else choice([str(v) for v in values])
            for axis, values in axes.items()
        }
        # Drawn without replacement while there are any: random search over a finite table repeats itself otherwise.
        first = [self._encoded(one) for one in self._rng.permutation(len(self._board.configurations))]
        plain: dict[str, Any] = {"do_minimize": False, "random_seed": seed}
        rungs = {"time_attr": LEVEL, "max_t": self._levels.most, "grace_period": self._levels.least}
        cqr: dict[str, Any] = {"random_seed": seed, "update_frequency": REFITTED}
        random = RandomSearch(space, [SCORE], **plain, points_to_evaluate=first)
        makers: dict[str, Callable[[], TrialScheduler]] = {
            "asha": lambda: ASHA(space, SCORE, **rungs, **plain, points_to_evaluate=first),
            "hyperband": lambda: ASHA(space, SCORE, **rungs, **plain, brackets=BRACKETS, points_to_evaluate=first),
            "bohb": lambda: BOHB(space, SCORE, **rungs, **plain),
            "cqr-asha": lambda: AsynchronousSuccessiveHalving(
                space, SCORE, searcher=LastValueMultiFidelitySearcher(space, searcher="cqr", **cqr), **plain, **rungs
            ),
            "cqr": lambda: SingleObjectiveScheduler(
                space, SCORE, searcher=ConformalQuantileRegression(space, **cqr), **plain
            ),
            "median": lambda: MedianStoppingRule(random, LEVEL, metric=SCORE, grace_time=self._levels.least, **plain),
            "random": lambda: random,
        }
        return makers[name]()

    def next(self) -> Task | None:
        """Ask for a configuration."""
        if self._name.startswith("cqr"):
            self._scheduler.searcher.update_frequency = max(REFITTED, len(self._trials) // GROWN)
        suggestion = self._scheduler.suggest()
        if suggestion is None:
            return None
        number = len(self._trials)
        self._trials[number] = Trial(number, suggestion.config, datetime.now())
        self._scheduler.on_trial_add(self._trials[number])
        return Task(number, self._decoded(suggestion.config), self._levels.most)

    def reported(self, trial: Hashable, level: float, score: float) -> bool:
        """Report a level, and do with the decision what Syne Tune's `Tuner` does."""
        decision = self._scheduler.on_trial_result(self._trials[trial], {SCORE: score, LEVEL: int(level)})
        if decision == SchedulerDecision.CONTINUE:
            return True
        self._scheduler.on_trial_remove(self._trials[trial])
        self._stopped.add(trial)
        return False

    def ended(self, trial: Hashable, level: float, score: float) -> None:
        """Report the end, unless the scheduler has just called it one itself."""
        if trial not in self._stopped:
            self._scheduler.on_trial_complete(self._trials[trial], {SCORE: score, LEVEL: int(level)})

    def _encoded(self, configuration: int) -> dict[str, Any]:
        places = self._board.places[configuration]
        return {
            axis: int(place) if self._board.is_ordered(axis) else str(values[place])
            for (axis, values), place in zip(self._board.axes.items(), places, strict=True)
        }

    def _decoded(self, config: dict[str, Any]) -> int:
        places = [
            int(config[axis]) if self._board.is_ordered(axis) else values.index(config[axis])
            for axis, values in self._board.axes.items()
        ]
        return self._board.nearest(places, self._rng)
