"""Recipes compared as ScaleRL compares them (arXiv 2510.13786): first the asymptote, then how early it is neared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families.draws import CannotTellError, LawDraws, interval
from planner.curves.families.one_curve import draw_sigmoid
from planner.curves.laws import averaged
from planner.curves.settling import Difference, Fitted, difference
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_LEVEL, SEED_SD, Interval

_ROUNDING = 1e-6  # fits are no more exact than this: 0.610 and 0.590 are a tie
_DRAWS = 4000


@dataclass(frozen=True)
class ComparedRecipe:
    """A recipe's rank, and what it rests on.

    Recipes of one tie group (1 is the best) have the same A within the margin, and are ranked by the C_mid that they
    have at the A they share. `probability_best` is that of the first rank, `probability_tied` that of an A within the
    margin of the highest.
    """

    name: str
    rank: int
    tie_group: int
    runs: int
    A: Interval
    B: Interval
    C_mid: Interval
    probability_best: float
    probability_tied: float


@dataclass(frozen=True)
class Comparison:
    """Recipes from the best to the worst; `margin` is the difference of A that counts as none.

    The difference is that of the first two.
    """

    recipes: tuple[ComparedRecipe, ...]
    difference: Difference
    margin: float
    level: float
    notes: tuple[str, ...]


def compare(curves: Mapping[str, Sequence[Curve]], *, level: float = INTERVAL_LEVEL) -> Comparison:
    """Fit a sigmoid to every run and rank the recipes: higher A first, equal within the margin, then earlier C_mid.

    Of several runs of a recipe the mean counts, as uncertain as they differ, and a single one as published runs do. The
    margin is a part of the scale: of
    [0, 1], or of the range of all scores where they lie beyond.
    """
    every = [run for runs in curves.values() for run in runs]
    scale = 1.0
    if not all(run.bounded for run in every):
        scale = max(float(run.y.max()) for run in every) - min(float(run.y.min()) for run in every)
    drawn: dict[str, Vector] = {}
    fitted: dict[str, Fitted] = {}
    notes: list[str] = []
    for number, (name, runs) in enumerate(curves.items()):
        try:
            fits = [draw_sigmoid(averaged(run)) for run in runs]
        except CannotTellError as reason:
            notes.append(f"{name} left out: {reason}")
            continue
        drawn[name] = _drawn(fits, number, scale * SEED_SD)
        fitted[name] = Fitted(averaged(runs[0]), fits, _seed_variance(fits, scale * SEED_SD))
        notes += [f"{name}: {doubt}" for doubt in dict.fromkeys(doubt for fit in fits for doubt in fit.doubts)]
    if len(drawn) < 2:
        raise InputError(
            f"{len(drawn)} of {len(curves)} recipes have a curve that can be fitted ({'; '.join(notes) or 'no more'}): "
            "a comparison needs two at least"
        )
    many, margin = {name: len(curves[name]) for name in drawn}, scale * EQUIVALENCE_MARGIN
    ranked = _ranked(drawn, many, margin, level)
    first, second = ranked[0].name, ranked[1].name
    apart = difference((first, second), fitted[first], fitted[second], margin, level)
    return Comparison(ranked, apart, margin, level, tuple(notes))


def _seed_variance(fits: Sequence[LawDraws], otherwise: float) -> float:
    """Return the variance of A between a recipe's runs; of a single one that of published runs."""
    return float(np.var([np.median(fit.parameters["A"]) for fit in fits], ddof=1)) if len(fits) > 1 else otherwise**2


def _drawn(fits: Sequence[LawDraws], number: int, seed_sd: float) -> Vector:
    """Return draws of a recipe's A, log B and log C_mid: its runs' mean, and what so many runs may be off by.

    Of a single run only the A may be off, by what published seeds differ by.
    """
    # Draws of different recipes must not go together, as those of one random sequence may.
    generator = np.random.default_rng(number)
    each = []
    for fit in fits:
        a, b, c_mid = (fit.parameters[name] for name in ("A", "B", "C_mid"))
        each.append(np.stack([a, np.log(b), np.log(c_mid)])[:, generator.choice(a.size, _DRAWS)])
    mean = np.mean(each, axis=0)
    if len(fits) > 1:
        off_by = np.median(each, axis=2).std(axis=0, ddof=1) / math.sqrt(len(fits))
        mean = mean + off_by[:, None] * generator.standard_normal(mean.shape)
    else:
        half = generator.standard_normal(_DRAWS // 2)
        mean[0] += seed_sd * np.concatenate([half, -half])  # symmetric: the middle stays the run's own
    return np.asarray(mean)


def _midpoint_at(draws: Vector, asymptote: float | Vector) -> Vector:
    """Return draws of log C_mid, had A been this, since a higher A is reached later."""
    covariance = np.cov(draws[0], draws[2])
    slope = covariance[0, 1] / covariance[0, 0] if covariance[0, 0] > 0 else 0.0
    return np.asarray(draws[2] - slope * (draws[0] - asymptote))


def _ranked(
    drawn: Mapping[str, Vector], runs: Mapping[str, int], margin: float, level: float
) -> tuple[ComparedRecipe, ...]:
    def summary(draws: Vector) -> Interval:
        return Interval(*map(float, interval(draws, None, level)))

    best, tied = _chances(list(drawn.values()), margin)
    chances = {name: (float(best[row]), float(tied[row])) for row, name in enumerate(drawn)}
    medians = {name: float(np.median(draws[0])) for name, draws in drawn.items()}
    rows: list[ComparedRecipe] = []
    for group, names in enumerate(_tie_groups(medians, margin), start=1):
        common = math.fsum(medians[name] for name in names) / len(names)
        midpoints = {name: summary(np.exp(_midpoint_at(drawn[name], common))) for name in names}
        for name in sorted(names, key=lambda name: (midpoints[name].median, name)):
            parameters = summary(drawn[name][0]), summary(np.exp(drawn[name][1])), midpoints[name]
            rows.append(ComparedRecipe(name, len(rows) + 1, group, runs[name], *parameters, *chances[name]))
    return tuple(rows)


def _chances(drawn: Sequence[Vector], margin: float) -> tuple[Vector, Vector]:
    """Return how often each recipe is ranked first, and how often its A is the highest or ties with it."""
    asymptotes = np.stack([draws[0] for draws in drawn])
    tied = asymptotes >= asymptotes.max(axis=0) - margin - _ROUNDING
    common = (asymptotes * tied).sum(axis=0) / tied.sum(axis=0)
    midpoints = np.stack([_midpoint_at(draws, common) for draws in drawn])
    first = np.where(tied, midpoints, np.inf).argmin(axis=0)
    return np.bincount(first, minlength=len(drawn)) / _DRAWS, tied.mean(axis=1)


def _tie_groups(asymptotes: Mapping[str, float], margin: float) -> list[list[str]]:
    """Split names into groups, each led by the highest A that is left; who ties with the leader belongs to it.

    Ties are with the leader only: chains of small differences would otherwise join recipes that clearly differ.
    """
    left = sorted(asymptotes, key=lambda name: (-asymptotes[name], name))
    groups = []
    while left:
        groups.append([name for name in left if asymptotes[left[0]] - asymptotes[name] <= margin + _ROUNDING])
        left = [name for name in left if name not in groups[-1]]
    return groups
