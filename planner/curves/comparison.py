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
from planner.curves.families.one_curve import CannotTellError, LawDraws, draw_sigmoid, interval
from planner.curves.laws import averaged
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_LEVEL, SEED_SD, Interval

_ROUNDING = 1e-6  # fits are no more exact than this: 0.610 and 0.590 are a tie
_DRAWS = 4000
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


class _Recipe:
    """A recipe's runs, fitted; `sample` holds draws of its A, log B and log C_mid."""

    def __init__(self, name: str, runs: Sequence[Curve], number: int, scale: float, *, bounded: bool) -> None:
        self.name, self.runs = name, [averaged(run) for run in runs]
        self.fits = [draw_sigmoid(run) for run in self.runs]
        ends = [np.median(fit.parameters["A"]) for fit in self.fits]
        self.asymptote = float(np.mean(ends))
        # Of scores that are no pass rates p(1 − p) is the most that it can be.
        seed_sd = scale * SEED_SD * math.sqrt(float(pass_rate_variance(self.asymptote if bounded else 0.5)))
        self._seed_variance = float(np.var(ends, ddof=1)) if len(ends) > 1 else seed_sd**2
        self.sample = _sample(self.fits, number, seed_sd)

    def variance(self, more_runs: int = 0, shrunk: float = 1.0) -> float:
        """Return that of A, with so many runs more, or with fits that are surer by a factor."""
        of_fit = float(np.mean([np.var(fit.parameters["A"]) for fit in self.fits]))  # how unsure one run's curve is
        return (self._seed_variance + shrunk * of_fit) / (len(self.fits) + more_runs)

    def shrunk(self, longer: float) -> float:
        """Return what is left of a fit's variance once the run is longer and goes on as its curve says."""
        with np.errstate(all="ignore"):
            extended = draw_sigmoid(_extended(self.runs[0], self.fits[0], longer))
        before = max(1e-12, float(np.var(self.fits[0].parameters["A"])))
        return min(1.0, float(np.var(extended.parameters["A"])) / before)


def compare(curves: Mapping[str, Sequence[Curve]], *, level: float = INTERVAL_LEVEL) -> Comparison:
    """Fit a sigmoid to every run and rank the recipes: higher A first, equal within the margin, then earlier C_mid.

    Of several runs of a recipe the mean counts, as uncertain as they differ, and a single one as published runs do. The
    margin is a part of the scale: of [0, 1], or of the range of all scores where they lie beyond.
    """
    every = [run for runs in curves.values() for run in runs]
    scale, bounded = 1.0, all(run.bounded for run in every)
    if not bounded:
        scale = max(float(run.y.max()) for run in every) - min(float(run.y.min()) for run in every)
    fitted: dict[str, _Recipe] = {}
    notes: list[str] = []
    for number, (name, runs) in enumerate(curves.items()):
        try:
            fitted[name] = _Recipe(name, runs, number, scale, bounded=bounded)
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
    apart = _difference(fitted[ranked[0].name], fitted[ranked[1].name], margin, level)
    return Comparison(ranked, apart, margin, level, tuple(notes))


def _sample(fits: Sequence[LawDraws], number: int, seed_sd: float) -> Vector:
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


def _ranked(fitted: Mapping[str, _Recipe], margin: float, level: float) -> tuple[ComparedRecipe, ...]:
    def summary(draws: Vector) -> Interval:
        return Interval(*map(float, interval(draws, None, level)))

    best, tied = _chances([each.sample for each in fitted.values()], margin)
    chances = {name: (float(best[row]), float(tied[row])) for row, name in enumerate(fitted)}
    medians = {name: float(np.median(each.sample[0])) for name, each in fitted.items()}
    rows: list[ComparedRecipe] = []
    for group, names in enumerate(_tie_groups(medians, margin), start=1):
        common = math.fsum(medians[name] for name in names) / len(names)
        midpoints = {name: summary(np.exp(_midpoint_at(fitted[name].sample, common))) for name in names}
        for name in sorted(names, key=lambda name: (midpoints[name].median, name)):
            a, log_b, _ = fitted[name].sample
            parameters = summary(a), summary(np.exp(log_b)), midpoints[name]
            rows.append(ComparedRecipe(name, len(rows) + 1, group, len(fitted[name].fits), *parameters, *chances[name]))
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


def _difference(one: _Recipe, other: _Recipe, margin: float, level: float) -> Difference:
    """Return the difference of two recipes, each as unsure as its curves and the luck of its seeds leave it."""
    reach, apart = NormalDist().inv_cdf((1 + level) / 2), one.asymptote - other.asymptote

    def settles(*variances: float) -> bool:
        error = reach * math.sqrt(sum(variances))
        return abs(apart) > error or abs(apart) + error <= margin

    def settles_longer(times: float) -> bool:
        try:
            return settles(*(each.variance(shrunk=each.shrunk(times)) for each in (one, other)))
        except CannotTellError:
            return False

    error = reach * math.sqrt(one.variance() + other.variance())
    at = Interval(apart, apart - error, apart + error)
    if settles(one.variance(), other.variance()):
        return Difference(one.name, other.name, at, True, None, None)
    lengths = LONGER if settles(one.variance(shrunk=0), other.variance(shrunk=0)) else ()
    runs = range(1, MOST_RUNS + 1)
    more = next((count for count in runs if settles(one.variance(count), other.variance(count))), None)
    return Difference(one.name, other.name, at, False, more, next(filter(settles_longer, lengths), None))


def _extended(curve: Curve, fit: LawDraws, times: float) -> Curve:
    """Return a run that goes on, scored as often as before, along the middle of its curve and as noisy."""
    last, apart = float(curve.x[-1]), float(curve.x[-1] - curve.x[0]) / (curve.x.size - 1)
    x: Vector = last + apart * np.arange(1.0, 1 + round(last * (times - 1) / apart))
    noise = fit.noise_sd * np.random.default_rng(0).standard_normal(x.size)
    y: Vector = np.quantile(fit.values(x), 0.5, axis=0) + noise
    y = np.clip(y, 0, 1) if curve.bounded else y
    return replace(curve, x=np.append(curve.x, x), y=np.append(curve.y, y), standard_errors=None)
