"""By how much two recipes differ where their curves end, and how many more runs, or how much longer ones, settle it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from planner.curves.curve import Curve, Vector
from planner.curves.families.draws import CannotTellError, LawDraws
from planner.curves.families.one_curve import draw_sigmoid
from planner.metrics import Interval

MOST_RUNS = 50  # more of each: who has that many knows better
LONGER = (1.5, 2.0, 3.0, 4.0, 8.0)  # times the length of a run


@dataclass(frozen=True)
class Fitted:
    """A recipe: one run, the fits of all, and the variance between its seeds."""

    run: Curve
    fits: Sequence[LawDraws]
    seed_variance: float

    @property
    def asymptote(self) -> float:
        """A, the mean of the runs'."""
        return float(np.mean([np.median(fit.parameters["A"]) for fit in self.fits]))

    @property
    def fit_variance(self) -> float:
        """How unsure one run's curve leaves its A."""
        return float(np.mean([np.var(fit.parameters["A"]) for fit in self.fits]))

    def variance(self, more_runs: int = 0, shrunk: float = 1.0) -> float:
        """Return that of A, with so many runs more, or with fits that are surer by a factor."""
        return (self.seed_variance + shrunk * self.fit_variance) / (len(self.fits) + more_runs)

    def shrunk(self, longer: float) -> float:
        """Return what is left of a fit's variance once the run is longer and goes on as its curve says."""
        fit = self.fits[0]
        with np.errstate(all="ignore"):
            extended = draw_sigmoid(_extended(self.run, fit, longer))
        return min(1.0, float(np.var(extended.parameters["A"])) / max(1e-12, float(np.var(fit.parameters["A"]))))


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


def difference(names: tuple[str, str], one: Fitted, other: Fitted, margin: float, level: float) -> Difference:
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
        return Difference(*names, at, True, None, None)
    lengths = LONGER if settles(one.variance(shrunk=0), other.variance(shrunk=0)) else ()
    runs = range(1, MOST_RUNS + 1)
    more = next((count for count in runs if settles(one.variance(count), other.variance(count))), None)
    return Difference(*names, at, False, more, next(filter(settles_longer, lengths), None))


def _extended(curve: Curve, fit: LawDraws, times: float) -> Curve:
    """Return a run that goes on, scored as often as before, along the middle of its curve and as noisy."""
    last, apart = float(curve.x[-1]), float(curve.x[-1] - curve.x[0]) / (curve.x.size - 1)
    x: Vector = last + apart * np.arange(1.0, 1 + round(last * (times - 1) / apart))
    noise = fit.noise_sd * np.random.default_rng(0).standard_normal(x.size)
    y: Vector = np.quantile(fit.series[""](x), 0.5, axis=0) + noise
    y = np.clip(y, 0, 1) if curve.bounded else y
    return replace(curve, x=np.append(curve.x, x), y=np.append(curve.y, y), standard_errors=None)
