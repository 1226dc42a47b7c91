"""Beliefs in plays of the policy: of runs when they were given up, and of all that were trained at the end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.covering.pilots import DRAWS, Belief, belief
from planner.pooling.draws import JointDraws
from planner.pooling.pool import Pool
from planner.replaying.game import Game
from planner.replaying.recorded import Recorded
from planner.sweeping.actions import Action, Policy, Prune
from planner.sweeping.policies import open_policy
from planner.view import View


@dataclass
class _Watched:
    """A policy whose prunings are kept, each with what was known."""

    policy: Policy
    name: str
    pruned: list[tuple[Prune, View]] = field(default_factory=list)

    def decide(self, view: View) -> Sequence[Action]:
        """Decide as the policy does."""
        actions = self.policy.decide(view)
        self.pruned += [(action, view) for action in actions if isinstance(action, Prune)]
        return actions


@dataclass(frozen=True)
class Play:
    """What was believed of the runs given up, when they were, and of all that were trained, at the end."""

    pruned: list[Belief]
    ended: list[Belief]


def played(table: str, recorded: Recorded, target: float, share: float, seed: int) -> Play:
    """Play the policy with a share of the full grid's cost."""
    pool = Pool()
    watched = _Watched(open_policy("rlplan", search=None, pool=pool), "rlplan")
    budget = share * recorded.full_cost(target)
    game = Game(recorded, budget=budget, target=target, seed=seed, workers=1)
    for view in game.views(watched):
        last = view
    truth = {
        number: run.score_near(target)
        for number, run in zip(last.trials, recorded.in_order(seed), strict=True)
        if run.length >= 0.9 * target
    }
    pruned = []
    for action, view in watched.pruned:
        worlds = pool.joint_draws(view, DRAWS)
        pruned += [one for trial, one in _beliefs(table, worlds, view, truth) if trial == action.trial]
    ended = [one for _, one in _beliefs(table, pool.joint_draws(last, DRAWS), last, truth)]
    return Play(pruned, ended)


def _beliefs(table: str, worlds: JointDraws, view: View, truth: Mapping[int, float]) -> Iterator[tuple[int, Belief]]:
    """Yield what is believed of every run that has been trained, by its trial, where its truth is known."""
    curves = np.arange(len(worlds.runs.of))
    ends = worlds.observed(worlds.runs.of, curves, np.ones((len(curves), 1)))[:, :, 0].clip(0.0, 1.0)
    for curve, number in enumerate(worlds.runs.trials):
        if number in truth:
            scores = [seen for seen in view.trials[number].scores if seen.gpu_hours > 0]
            distance = view.target_gpu_hours / scores[-1].gpu_hours
            yield number, belief(table, distance, len(scores), ends[:, curve], truth[number])
