"""Recipes compared as ScaleRL compares them (arXiv 2510.13786): first the asymptote, then how early it is neared.

The first two also by how much they differ where their curves end, and what would settle it: more runs, or longer ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector, pass_rate_variance
from planner.curves.gain_curve import CannotTellError, LawDraws, draw_sigmoid, interval
from planner.curves.laws import averaged
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_LEVEL, SEED_SD, Interval

ROUNDING = 1e-6  # fits are no more exact than this: 0.610 and 0.590 are a tie
DRAWS = 4000
MOST_RUNS = 50  # more of each: who has that many knows better
LONGER = (1.5, 2.0, 3.0, 4.0, 8.0)  # times the length of a run


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
class Difference:
    """How far the A of the first lies above that of the second; what would settle it, None where nothing here does.

    Settled is that they differ, or that they differ by less than the margin.
    """

    first: str
    second: str
    A: Interval
    settled: bool
    more_runs: int | None  # of each recipe
    longer: float | None  # times the length of each run


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


class FittedRecipe:
    """A recipe's runs, fitted; `sample` (3, d) holds draws of its A, log B and log C_mid.

    These are its runs' mean, and what so many runs may be off by: of a single one only the A may be, by what published
    seeds differ by.
    """

    def __init__(self, runs: Sequence[Curve], number: int, scale: float, *, bounded: bool) -> None:
        self.runs = [averaged(run) for run in runs]
        self.fits = [draw_sigmoid(run) for run in self.runs]
        samples = np.stack([_sample(fit, [number, place]) for place, fit in enumerate(self.fits)])  # (runs, 3, d)
        medians = np.median(samples, axis=2)
        self.asymptote, self.sample = float(medians[:, 0].mean()), samples.mean(axis=0)
        self.fit_variance = float(samples[:, 0].var(axis=1).mean())  # how unsure one run's curve is
        generator = np.random.default_rng(number)
        if len(runs) > 1:
            self.seed_variance = float(medians[:, 0].var(ddof=1))
            off_by = medians.std(axis=0, ddof=1) / math.sqrt(len(runs))
            self.sample = self.sample + off_by[:, None] * generator.standard_normal((3, DRAWS))
        else:
            # Of scores that are no pass rates p(1 − p) is the most that it can be.
            variance = float(pass_rate_variance(self.asymptote if bounded else 0.5))
            self.seed_variance = (scale * SEED_SD) ** 2 * variance
            half = generator.standard_normal(DRAWS // 2)
            # Symmetric: the middle stays the run's own.
            self.sample[0] += math.sqrt(self.seed_variance) * np.concatenate([half, -half])

    def variance(self, more_runs: int = 0, shrunk: float = 1.0) -> float:
        """Return that of A, with so many runs more, or with fits that are surer by a factor."""
        return (self.seed_variance + shrunk * self.fit_variance) / (len(self.fits) + more_runs)

    def shrunk(self, longer: float) -> float:
        """Return what is left of the first fit's variance once its run is longer, as its curve says and as noisy."""
        curve, fit = self.runs[0], self.fits[0]
        last, apart = float(curve.x[-1]), float(curve.x[-1] - curve.x[0]) / (curve.x.size - 1)
        x: Vector = last + apart * np.arange(1.0, 1 + round(last * (longer - 1) / apart))
        middle = np.median(fit.values(x)[fit.sample(DRAWS, seed=0)], axis=0)
        y = middle + fit.noise_sd * np.random.default_rng(0).standard_normal(x.size)
        y = np.append(curve.y, np.clip(y, 0, 1) if curve.bounded else y)
        with np.errstate(all="ignore"):
            extended = draw_sigmoid(replace(curve, x=np.append(curve.x, x), y=y, standard_errors=None))
        before, after = (float(np.var(_sample(draws, [0])[0])) for draws in (fit, extended))
        return min(1.0, after / max(1e-12, before))


def compare(curves: Mapping[str, Sequence[Curve]], *, level: float = INTERVAL_LEVEL) -> Comparison:
    """Fit a sigmoid to every run and rank the recipes: higher A first, equal within the margin, then earlier C_mid.

    Of several runs of a recipe the mean counts, as uncertain as they differ, and a single one as published runs do. The
    margin is a part of the scale: of [0, 1], or of the range of all scores where they lie beyond.
    """
    every = [run for runs in curves.values() for run in runs]
    scale, bounded = 1.0, all(run.bounded for run in every)
    if not bounded:
        scale = max(float(run.y.max()) for run in every) - min(float(run.y.min()) for run in every)
    fitted: dict[str, FittedRecipe] = {}
    notes: list[str] = []
    for number, (name, runs) in enumerate(curves.items()):
        try:
            fitted[name] = FittedRecipe(runs, number, scale, bounded=bounded)
        except CannotTellError as reason:
            notes.append(f"{name} left out: {reason}")
            continue
        doubts = dict.fromkeys(doubt for fit in fitted[name].fits for doubt in fit.doubts)
        notes += [f"{name}: {doubt}" for doubt in doubts]
    if len(fitted) < 2:
        raise InputError(
            f"{len(fitted)} of {len(curves)} recipes have a curve that can be fitted ({'; '.join(notes) or 'no more'}):"
            " a comparison needs two at least"
        )
    margin = scale * EQUIVALENCE_MARGIN
    ranked = _ranked(fitted, margin, level)
    difference = _difference([(row.name, fitted[row.name]) for row in ranked[:2]], margin, level)
    return Comparison(ranked, difference, margin, level, tuple(notes))


def _sample(fit: LawDraws, seed: Sequence[int]) -> Vector:
    """Return draws of A, log B and log C_mid; those of different recipes and runs do not go together."""
    drawn = np.stack([fit.parameters["A"], np.log(fit.parameters["B"]), np.log(fit.parameters["C_mid"])])
    return np.asarray(drawn[:, fit.sample(DRAWS, seed)])


def _midpoint_at(draws: Vector, asymptote: float | Vector) -> Vector:
    """Return draws of log C_mid, had A been this, since a higher A is reached later."""
    covariance = np.cov(draws[0], draws[2])
    slope = covariance[0, 1] / covariance[0, 0] if covariance[0, 0] > 0 else 0.0
    return np.asarray(draws[2] - slope * (draws[0] - asymptote))


def _ranked(fitted: Mapping[str, FittedRecipe], margin: float, level: float) -> tuple[ComparedRecipe, ...]:
    def summary(draws: Vector) -> Interval:
        return Interval(*map(float, interval(draws, None, level)))

    chances = dict(zip(fitted, _chances([recipe.sample for recipe in fitted.values()], margin), strict=True))
    medians = {name: float(np.median(recipe.sample[0])) for name, recipe in fitted.items()}
    rows: list[ComparedRecipe] = []
    for group, names in enumerate(_tie_groups(medians, margin), start=1):
        common = math.fsum(medians[name] for name in names) / len(names)
        midpoints = {name: summary(np.exp(_midpoint_at(fitted[name].sample, common))) for name in names}
        for name in sorted(names, key=lambda name: (midpoints[name].median, name)):
            a, log_b, _ = fitted[name].sample
            parameters = summary(a), summary(np.exp(log_b)), midpoints[name]
            rows.append(ComparedRecipe(name, len(rows) + 1, group, len(fitted[name].fits), *parameters, *chances[name]))
    return tuple(rows)


def _chances(drawn: Sequence[Vector], margin: float) -> list[tuple[float, float]]:
    """Return how often each recipe is ranked first, and how often its A is the highest or ties with it."""
    asymptotes = np.stack([draws[0] for draws in drawn])
    tied = asymptotes >= asymptotes.max(axis=0) - margin - ROUNDING
    common = (asymptotes * tied).sum(axis=0) / tied.sum(axis=0)
    midpoints = np.stack([_midpoint_at(draws, common) for draws in drawn])
    first = np.where(tied, midpoints, np.inf).argmin(axis=0)
    return [(float((first == row).mean()), float(tied[row].mean())) for row in range(len(drawn))]


def _tie_groups(asymptotes: Mapping[str, float], margin: float) -> list[list[str]]:
    """Split names into groups, each led by the highest A that is left; who ties with the leader belongs to it.

    Ties are with the leader only: chains of small differences would otherwise join recipes that clearly differ.
    """
    remaining = sorted(asymptotes, key=lambda name: (-asymptotes[name], name))
    groups = []
    while remaining:
        groups.append([name for name in remaining if asymptotes[remaining[0]] - asymptotes[name] <= margin + ROUNDING])
        remaining = [name for name in remaining if name not in groups[-1]]
    return groups


def _difference(first_two: Sequence[tuple[str, FittedRecipe]], margin: float, level: float) -> Difference:
    """Return the difference of two recipes, each as unsure as its curves and the luck of its seeds leave it."""
    (first, one), (second, other) = first_two
    reach, apart = NormalDist().inv_cdf((1 + level) / 2), one.asymptote - other.asymptote

    def settles(*variances: float) -> bool:
        error = reach * math.sqrt(sum(variances))
        return abs(apart) > error or abs(apart) + error <= margin

    def settles_longer(times: float) -> bool:
        try:
            return settles(*(recipe.variance(shrunk=recipe.shrunk(times)) for recipe in (one, other)))
        except CannotTellError:
            return False

    error = reach * math.sqrt(one.variance() + other.variance())
    at = Interval(apart, apart - error, apart + error)
    if settles(one.variance(), other.variance()):
        return Difference(first, second, at, True, None, None)
    lengths = LONGER if settles(one.variance(shrunk=0), other.variance(shrunk=0)) else ()
    runs = range(1, MOST_RUNS + 1)
    more = next((count for count in runs if settles(one.variance(count), other.variance(count))), None)
    return Difference(first, second, at, False, more, next(filter(settles_longer, lengths), None))
