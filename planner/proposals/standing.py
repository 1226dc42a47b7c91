"""How the rows of a plan stand against its first, and which studies put it there: read off the prior's draws."""

import math
from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from budgets.cost import Z90
from planner.prior.comparing import LEAST_CHANCE_AHEAD, chances_ahead, differences, noise_between
from planner.prior.draws import PriorDraws, Weights, distance
from planner.prior.laws import Circumstances
from planner.prior.studies import STUDIES
from planner.proposals.request import GapToFirst, PricedCell, StudyWeight


def standings(ranked: Sequence[PricedCell], weights: Weights, usual: Sequence[tuple[int, int]]) -> list[GapToFirst]:
    """Return how each cell stands against the first, and of which usual choice it is the row, or the nearest to it."""
    first = ranked[0]
    nearest: dict[int, tuple[int, int]] = {}
    rows = [place for place, cell in enumerate(ranked) if not cell.variant.of_first_row]
    for asked in reversed(usual):  # where one cell is the nearest to several, it stands for the first of them
        place = min(rows, key=lambda at: math.dist(np.log2(ranked[at].key), np.log2(asked)))
        nearest[place] = asked
    scores = np.stack([cell.scores for cell in ranked], axis=1)
    noise = noise_between(first.variant.workload.pass_rates.mean)
    means, sds = differences(scores, first.scores, weights, noise)
    level = chances_ahead(scores, first.scores, weights, noise) >= LEAST_CHANCE_AHEAD
    return [
        GapToFirst(mean, mean - Z90 * sd, mean + Z90 * sd, alike, nearest.get(place))
        for place, (mean, sd, alike) in enumerate(zip(means.tolist(), sds.tolist(), level.tolist(), strict=True))
    ]


def grounds(ranked: Sequence[PricedCell], prior: PriorDraws) -> tuple[StudyWeight, ...]:
    """Return each study with its weight, its distance, and the cell that would be first by it alone."""
    weights, scores = prior.by_study(np.stack([cell.scores for cell in ranked], axis=1))
    here = Circumstances.of(ranked[0].variant.workload)
    found = []
    for study, weight, alone in zip(STUDIES, weights.tolist(), scores.argmax(axis=1).tolist(), strict=True):
        away = distance(study.studied, here) if study.studied is not None else None
        found.append(StudyWeight(study.name, weight, away, *ranked[alone].key))
    return tuple(sorted(found, key=attrgetter("weight"), reverse=True))
