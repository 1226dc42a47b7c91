"""How likely a configuration's run is to collapse, from the runs near it."""

import math
from collections.abc import Sequence

import numpy as np

from planner.recommending.facts import ConfigurationFacts
from planner.recommending.prospect import Vector
from planner.view import Configuration

PRIOR_RISK = 0.02  # of a run of which nothing near is known
PRIOR_RUNS = 2.0  # how many runs that counts as
REACH = 1.0  # octaves of n and of B within which runs tell of each other
OWN = 3.0  # how much a run of the configuration itself counts
OTHER_AXES = 0.5  # how much a run with another recipe, model or learning rate counts


def collapse_risks(configurations: Sequence[Configuration], facts: Sequence[ConfigurationFacts]) -> Vector:
    """Return for each configuration the share of runs near it that collapsed; a run that declines counts half.

    A run d octaves away has the weight exp(−d²/2), its own run more, and a few imagined runs stand for nothing known.
    """
    place = np.log2([(each.rollouts_per_prompt, each.prompts_per_batch) for each in configurations])
    distance = ((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=2)
    same = np.array([[one.axes == other.axes for other in configurations] for one in configurations])
    weight = np.exp(-distance / (2 * REACH**2)) * np.where(same, 1.0, OTHER_AXES)
    np.fill_diagonal(weight, OWN)
    runs = np.array([each.seeds_seen for each in facts], dtype=float)
    bad = np.array([each.collapsed_runs + each.declining_runs / 2 for each in facts])
    return np.asarray((weight @ bad + PRIOR_RUNS * PRIOR_RISK) / (weight @ runs + PRIOR_RUNS))


def octaves_between(one: Configuration, other: Configuration) -> float:
    """Return how far two configurations lie apart in n and B."""
    return math.hypot(
        math.log2(one.rollouts_per_prompt / other.rollouts_per_prompt),
        math.log2(one.prompts_per_batch / other.prompts_per_batch),
    )
