"""What is believed of every trial under the joint model: its prediction, its configuration's chances, its verdict."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from planner.pooling.draws import Worlds, shares_of_best
from planner.pooling.opening import Pool
from planner.sweeping.beliefs import LEVEL, Belief, Beliefs
from planner.sweeping.predictions import Explained
from planner.trials import TrialState
from planner.view import TrialView, View, has_curve

OUT = frozenset({TrialState.FAILED, TrialState.PRUNED})


class JointBeliefs:
    """Beliefs about the trials of one view after another; verdicts and parameters are those of single curves."""

    def __init__(self, pool: Pool | None = None, alone: Beliefs | None = None) -> None:
        self._pool, self._alone = pool or Pool(), alone or Beliefs()

    def of(self, view: View) -> Mapping[int, Belief]:
        """Return the belief about each trial that has a score after its first update, by its id."""
        seen = {trial.trial: trial for trial in view.trials.values() if has_curve(trial)}
        return _Beliefs(seen, self._pool.worlds(view) if seen else None, self)

    def explain(self, trials: Sequence[TrialView]) -> list[Explained]:
        """Return verdicts and parameters of trials that have a curve, all new ones in one go."""
        return self._alone.explain(trials)


class _Beliefs(Mapping[int, Belief]):
    """Beliefs by trial id, found when they are looked at."""

    def __init__(self, seen: Mapping[int, TrialView], worlds: Worlds | None, beliefs: JointBeliefs) -> None:
        self._seen, self._worlds, self._beliefs = seen, worlds, beliefs
        if worlds is not None:
            self._best = shares_of_best(worlds.at_target)

    def __len__(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[int]:
        return iter(self._seen)

    def __getitem__(self, trial: int) -> Belief:
        view, worlds = self._seen[trial], self._worlds
        assert worlds is not None, "whoever was seen has worlds"
        place = worlds.place[view.configuration]
        run = worlds.run_of.get(trial)
        if run is None:  # of a configuration with many runs only some are fitted
            scores = worlds.at_target[:, place]
        else:
            scores = np.clip(worlds.observed(np.array([place]), np.array([run]), np.ones((1, 1)))[:, 0, 0], 0.0, 1.0)
        low, median, high = np.quantile(scores, ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
        explained = self._beliefs.explain([view])[0]
        return Belief(
            verdict=explained.verdict,
            evidence=explained.evidence,
            median=float(median),
            low=float(low),
            high=float(high),
            mean=float(scores.mean()),
            probability_best=0.0 if view.state in OUT else float(self._best[place]),
            parameters=explained.parameters,
            upto_gpu_hours=view.scores[-1].gpu_hours,
        )
