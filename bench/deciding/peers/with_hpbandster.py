"""HpBandSter's BOHB and Hyperband: its iterations and its models, with its master's loop in simulated time.

The master itself talks to workers over Pyro and a clock of its own; what is left out is only that. HpBandSter 0.7.4 is
older than ConfigSpace 1: the names that it calls are given back to the classes here.
"""

import logging
from collections.abc import Hashable

import ConfigSpace
import numpy as np
from board import Levels, SweepState
from clock import Task
from ConfigSpace.hyperparameters import CategoricalHyperparameter, UniformIntegerHyperparameter
from hpbandster.core.dispatcher import Job
from hpbandster.optimizers.bohb import BOHB
from hpbandster.optimizers.config_generators import bohb as densities
from hpbandster.optimizers.config_generators.random_sampling import RandomSampling
from hpbandster.optimizers.hyperband import HyperBand
from hpbandster.optimizers.iterations import SuccessiveHalving

logging.getLogger("hpbandster").setLevel(logging.CRITICAL)
NAMES = ("bohb", "hyperband")
ETA = 3


class Space(ConfigSpace.ConfigurationSpace):
    """A space with the names of ConfigSpace 0.4."""

    def get_hyperparameters(self):
        """Return its parameters in order."""
        return list(self.values())

    def get_hyperparameter(self, name):
        """Return a parameter by its name."""
        return self[name]

    def get_hyperparameter_by_idx(self, index):
        """Return a parameter's name by its place."""
        return self.at[index]


def as_dictionary(configuration):
    """Return a configuration's values by name."""
    return dict(configuration)


ConfigSpace.Configuration.get_dictionary = as_dictionary


class HpBandSter:
    """One optimizer; a configuration that is promoted goes on from where it was left."""

    def __init__(self, name: str, board: SweepState, levels: Levels, workers: int, seed: int) -> None:
        """Open BOHB or Hyperband with its default settings."""
        self._board, self._rng = board, np.random.default_rng(seed)
        space = Space(seed=seed)
        for axis, values in board.axes.items():
            if not board.is_ordered(axis):
                space.add(CategoricalHyperparameter(axis, values))
            elif len(values) > 1:
                space.add(UniformIntegerHyperparameter(axis, 0, len(values) - 1))
        kind = BOHB if name == "bohb" else HyperBand
        self._master = kind.__new__(kind)
        self._master.config_generator = densities.BOHB(configspace=space) if name == "bohb" else RandomSampling(space)
        self._master.eta = ETA
        deepest = int(np.log(levels.most / levels.least) / np.log(ETA) + 1e-9) + 1
        self._master.max_SH_iter = deepest
        self._master.budgets = levels.most * np.power(float(ETA), -np.linspace(deepest - 1, 0, deepest))
        self._iterations: list[SuccessiveHalving] = []
        self._jobs: dict[Hashable, Job] = {}

    def next(self) -> Task | None:
        """Do as `Master.run` does: the first run of any open iteration, or a new iteration."""
        while True:
            for iteration in self._iterations:
                found = None if iteration.is_finished else iteration.get_next_run()
                if found is not None:
                    number, config, budget = found
                    self._jobs[number] = Job(number, config=config, budget=budget)
                    self._jobs[number].timestamps = {}
                    return Task(number, self._decoded(config), float(budget), every_level=False)
            self._iterations.append(self._master.get_next_iteration(len(self._iterations)))

    def reported(self, trial: Hashable, level: float, score: float) -> bool:
        """Hear of nothing on the way."""
        return True

    def ended(self, trial: Hashable, level: float, score: float) -> None:
        """Hand the loss to the iteration and to the model."""
        job = self._jobs[trial]
        job.result, job.exception = {"loss": -score, "info": {}}, None
        self._iterations[trial[0]].register_result(job)
        self._master.config_generator.new_result(job)

    def _decoded(self, config: dict[str, object]) -> int:
        places = [
            0
            if axis not in config
            else int(config[axis])
            if self._board.is_ordered(axis)
            else values.index(config[axis])
            for axis, values in self._board.axes.items()
        ]
        return self._board.nearest(places, self._rng)
