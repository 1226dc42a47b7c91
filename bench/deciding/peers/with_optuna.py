"""Optuna's TPE with its pruners by `ask`, `report`, `should_prune` and `tell`."""

import warnings
from collections.abc import Hashable

import numpy as np
import optuna
from board import Levels, SweepState
from clock import Task
from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
NAMES = ("tpe-median", "tpe-halving", "tpe-hyperband", "tpe")


class Optuna:
    """One study. Axes of numbers are integers (places on the axis), axes of words are categories."""

    def __init__(self, name: str, board: SweepState, levels: Levels, workers: int, seed: int) -> None:
        """Open a study with the pruner that stands in the name."""
        self._board, self._levels, self._rng = board, levels, np.random.default_rng(seed)
        pruners = {
            "tpe-median": MedianPruner(n_startup_trials=5, n_warmup_steps=levels.least),
            "tpe-halving": SuccessiveHalvingPruner(min_resource=levels.least, reduction_factor=3),
            "tpe-hyperband": HyperbandPruner(min_resource=levels.least, max_resource=levels.most, reduction_factor=3),
            "tpe": NopPruner(),
        }
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=workers > 1)
        self._study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruners[name])
        self._open: dict[int, optuna.trial.Trial] = {}

    def next(self) -> Task | None:
        """Ask for a configuration."""
        trial = self._study.ask()
        places = [
            trial.suggest_int(axis, 0, len(values) - 1)
            if self._board.is_ordered(axis)
            else values.index(trial.suggest_categorical(axis, values))
            for axis, values in self._board.axes.items()
        ]
        self._open[trial.number] = trial
        return Task(trial.number, self._board.nearest(places, self._rng), self._levels.most)

    def reported(self, trial: Hashable, level: float, score: float) -> bool:
        """Report a level, and prune when the pruner says so."""
        open_trial = self._open[trial]
        open_trial.report(score, int(level))
        if level < self._levels.most and open_trial.should_prune():
            self._study.tell(open_trial, state=TrialState.PRUNED)
            return False
        return True

    def ended(self, trial: Hashable, level: float, score: float) -> None:
        """Tell the end."""
        self._study.tell(self._open[trial], score)
