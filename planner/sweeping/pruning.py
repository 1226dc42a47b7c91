"""Which trials can be given up: never on a point estimate, never the two best configurations."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.curves.curve import Vector
from planner.curves.verdicts import Verdict
from planner.sweeping.actions import Action, Prune, Why
from planner.sweeping.advancing import MOST_ALTERNATIVES, hours, named
from planner.sweeping.beliefs import Beliefs, Standing
from planner.sweeping.view import View

# A configuration that deserves to win is given up in at most one of fifty such judgements, and a chance of 2 % to win
# is worth at most 2 % of what the best differ by: less than the noise between seeds.
ALPHA = 0.02
# Among many that are equal all have little chance: the bar is α for up to so many, and falls with their number beyond.
MANY = 10


@dataclass(frozen=True, slots=True)
class Front:
    """The leader: the competing configuration with the highest expected score, by its best row; and the runner-up."""

    leader: int | None
    leader_mean: float
    runner_up_mean: float
    protected: frozenset[int]  # configurations that are never pruned

    @classmethod
    def of(cls, standing: Standing) -> "Front":
        """Find the leader and the runner-up; whoever has the highest probability is protected as well."""
        means = standing.configuration_means
        competing = np.flatnonzero(np.isfinite(means))
        if not competing.size:
            return cls(None, 0.0, 0.0, frozenset())
        order = competing[np.argsort(-means[competing], kind="stable")]
        likeliest = int(competing[np.argmax(standing.outcome.among_seen[competing])])
        rows = np.flatnonzero(standing.competes & (standing.configuration == order[0]))
        return cls(
            leader=int(rows[np.argmax(standing.mean[rows])]),
            leader_mean=float(means[order[0]]),
            runner_up_mean=float(means[order[1]]) if order.size > 1 else 0.0,
            protected=frozenset({*(int(number) for number in order[:2]), likeliest}),
        )

    def rivals(self, standing: Standing) -> Vector:
        """Return the mean of each row's best rival: the leader, or for the leader's own rows the runner-up."""
        leads = np.zeros(len(standing.table), dtype=bool)
        if self.leader is not None:
            leads = standing.configuration == standing.configuration[self.leader]
        return np.where(leads, self.runner_up_mean, self.leader_mean)


def bar(alpha: float, configurations: int) -> float:
    """Return the probability below which a configuration is given up, among so many."""
    return alpha * min(1.0, MANY / max(configurations, 1))


def prunes(view: View, beliefs: Beliefs, standing: Standing, front: Front, alpha: float) -> list[Action]:
    """Give up trials whose P(best at the target), among those with a curve, is below the bar.

    Only what was seen speaks against a trial: configurations without a curve are no evidence. A curve that cannot be
    identified yet is given up only when its whole interval lies below the leader's.
    """
    if front.leader is None:
        return []
    probability = standing.probability_best_of_seen
    competing = int(np.isfinite(standing.configuration_means).sum())
    limit = bar(alpha, competing)
    hopeless = standing.competes & standing.table["prunable"] & (probability < limit)
    hopeless &= standing.table["step"] < standing.table["most"]  # whoever has had everything is finished
    hopeless &= ~np.isin(standing.configuration, list(front.protected))
    rows = np.flatnonzero(hopeless)
    apart = standing.high[rows] < standing.low[front.leader]
    doubtful = [standing.table.trials[row] for row in rows[~apart]]
    unidentified = {
        trial.trial
        for trial, explained in zip(doubtful, beliefs.explain(doubtful), strict=True)
        if explained.verdict == Verdict.NOT_IDENTIFIABLE
    }
    return [
        Prune(standing.table.trials[row].trial, _why(view, standing, front.leader, int(row), limit))
        for row in rows
        if standing.table.trials[row].trial not in unidentified
    ]


def _why(view: View, standing: Standing, leader: int, row: int, limit: float) -> Why:
    trial, best = standing.table.trials[row], standing.table.trials[leader]
    probability = float(standing.probability_best_of_seen[row])
    told, told_best = (
        f"{standing.median[r]:.2f} ({standing.low[r]:.2f} to {standing.high[r]:.2f})" for r in (row, leader)
    )
    return Why(
        f"P({named(trial)} is best at {hours(view.target_gpu_hours)} GPU-hours) is {probability:.2g}, below "
        f"{limit:.2g}; {named(best)} is predicted {told_best} against {told}",
        {
            "probability_best": probability,
            "limit": limit,
            "target_gpu_hours": view.target_gpu_hours,
            **_numbers("", standing, row),
            **_numbers("leader_", standing, leader),
        },
        _kept(standing, row),
    )


def _numbers(prefix: str, standing: Standing, row: int) -> dict[str, Any]:
    return {
        f"{prefix}trial": standing.table.trials[row].trial,
        f"{prefix}median": float(standing.median[row]),
        f"{prefix}low": float(standing.low[row]),
        f"{prefix}high": float(standing.high[row]),
    }


def _kept(standing: Standing, row: int) -> list[dict[str, Any]]:
    """Return the weakest of the others, which could have been given up instead."""
    probability = np.where(standing.competes & standing.table["prunable"], standing.probability_best_of_seen, np.inf)
    probability[row] = np.inf
    weakest = np.argsort(probability, kind="stable")[:MOST_ALTERNATIVES]
    return [
        {"action": "prune", "probability_best": float(probability[other]), **_numbers("", standing, int(other))}
        for other in weakest
        if np.isfinite(probability[other])
    ]
