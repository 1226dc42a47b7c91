"""Which runs can be stopped, judged by what they are predicted to score at the target: for any tool that runs trials.

The bar is that of a sweep (`planner.policy.chances`), here for P(best), on any scale; each trial stands for itself.
"""

import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from budgets.errors import InputError
from planner.belief.draws import shares_of_best
from planner.curves.curve import Curve
from planner.curves.fit import fit_curves
from planner.curves.mixtures import Mixtures
from planner.curves.posterior import CHUNK, Prior, posterior_of
from planner.curves.preparation import prepare
from planner.curves.verdicts import Verdict
from planner.metrics import INTERVAL_ENDS
from planner.policy.actions import Why
from planner.policy.chances import ALPHA, bar

Mode = Literal["max", "min"]

MOST_NOT_FINITE = 3  # scores in a row that are no numbers, after which nothing more is awaited
LEAST_PROGRESS = 1.05  # times as far a run must have come to be judged again: curves are read on a logarithmic scale
SCALE_KNOWN_AT = 0.5  # of the way to the target: as far a run must have come to show what there is to gain, unbounded
DRAWS = 4_000  # of every run: a probability of 0.02, at which one of ten is stopped, is known to within 0.002
ROUNDING = 1e-6  # of the range between the bounds


class TrialForecast(NamedTuple):
    """What is predicted of a trial's mean score at the target; the interval is of 90 %."""

    median: float
    low: float
    high: float
    expected: float
    probability_best: float

    def __str__(self) -> str:
        return f"{self.median:.4g} ({self.low:.4g} to {self.high:.4g})"


@dataclass(slots=True)
class _Trial:
    points: dict[float, float] = field(default_factory=dict)  # finite scores, the higher the better
    running: bool = True
    competes: bool = True
    not_finite: int = 0  # scores in a row
    judged_at: float = 0.0  # x

    @property
    def at(self) -> float:
        """The x of the last score, 0 where there is none."""
        return next(reversed(self.points), 0.0)


class Stopping:
    """Takes up what trials score, and says which of them have no hope to be the best at the target, and why.

    Args:
        target: Where trials are compared, in the unit of the x of their scores: steps, or any measure of compute.
        mode: Whether high scores are good or low ones.
        bounds: The least and greatest value that the metric can have, where it has such. An early curve says much more
            when they are known.
        alpha: A trial is stopped when its probability to be the best falls below this (and below ten times this,
            divided by the number of trials that compete).
    """

    def __init__(
        self, target: float, *, mode: Mode = "max", bounds: tuple[float, float] | None = None, alpha: float = ALPHA
    ) -> None:
        if not (math.isfinite(target) and target > 0):
            raise InputError(f"target {target}: give the steps or the compute at which trials are compared, above 0")
        if mode not in ("max", "min"):
            raise InputError(f"mode '{mode}': give 'max' where high scores are good, or 'min' where low ones are")
        if bounds is not None and not (all(map(math.isfinite, bounds)) and bounds[0] < bounds[1]):
            raise InputError(f"bounds {bounds}: give the metric's least and greatest value, such as (0, 1), or None")
        if not 0 < alpha < 0.5:
            raise InputError(f"alpha {alpha}: it must lie above 0 and below 0.5, such as {ALPHA}")
        self.target, self.bounds, self.alpha = float(target), bounds, alpha
        low, high = bounds or (0.0, 1.0)
        # A score is origin + unit × what is reckoned with, of which more is better: in [0, 1] where bounds are known.
        self._origin, self._unit = (low, high - low) if mode == "max" else (high if bounds else 0.0, low - high)
        self._ends: dict[object, Mixtures] = {}  # of curves that were seen before
        self._trials: defaultdict[Hashable, _Trial] = defaultdict(_Trial)

    def __contains__(self, trial: Hashable) -> bool:
        return trial in self._trials

    def add_score(self, trial: Hashable, x: float, score: float) -> None:
        """Take up one score at one x; going back in x forgets what came after, as a run does that is set back."""
        if not (math.isfinite(x) and x >= 0):
            raise InputError(f"trial {trial} has a score at x = {x}: it must be finite and at least 0")
        curve, value = self._trials[trial], (score - self._origin) / self._unit
        if curve.points and x <= curve.at:
            curve.points = {at: earlier for at, earlier in curve.points.items() if at < x}
            curve.judged_at = 0.0
        if not math.isfinite(score):
            curve.not_finite += 1
            return
        if self.bounds is not None:
            if value > 1 + ROUNDING:
                raise InputError(
                    f"trial {trial} scored {score:g}, better than the bounds {self.bounds[0]:g} to {self.bounds[1]:g} "
                    "allow: give bounds that hold, or none"
                )
            value = min(max(value, 0.0), 1.0)  # worse than the bounds, as when a run diverges, is as bad as they allow
        curve.points[float(x)], curve.not_finite = value, 0

    def finish(self, trial: Hashable) -> None:
        """A trial has had all it was to get: it can be the best, and is not judged any more."""
        self._trials[trial].running = False

    def reopen(self, trial: Hashable) -> None:
        """A trial that was dropped or finished goes on: it competes and is judged again."""
        self._trials[trial].running = self._trials[trial].competes = True

    def drop(self, trial: Hashable) -> None:
        """A trial has failed or was stopped: it is out of the competition."""
        self._trials[trial].running = self._trials[trial].competes = False

    def hopeless(self, trial: Hashable) -> Why | None:
        """Return why a running trial can be stopped; None while it may still be the best.

        The two best by expectation and the likeliest are never stopped, and neither is one whose curve is not
        identifiable yet, unless its whole interval lies below the leader's.
        """
        curve = self._trials.get(trial)
        if curve is None or not curve.running:
            return None
        if (rows := curve.not_finite) >= MOST_NOT_FINITE:
            return Why(f"trial {trial} reported no finite score {rows} times in a row", {"not_finite": rows})
        if curve.judged_at < curve.at < LEAST_PROGRESS * curve.judged_at or not 0 < curve.at < self.target:
            return None
        farthest = max((other.at for other in self._trials.values() if other.competes), default=0.0)
        if self.bounds is None and farthest < SCALE_KNOWN_AT * self.target:
            return None
        curve.judged_at = curve.at
        return self._judged(trial, self._forecasts())

    def _judged(self, trial: Hashable, forecasts: dict[Hashable, TrialForecast]) -> Why | None:
        forecast, limit = forecasts[trial], bar(self.alpha, len(forecasts))
        best, *others = sorted(forecasts, key=lambda name: -forecasts[name].expected)
        likeliest = max(forecasts, key=lambda name: forecasts[name].probability_best)
        if trial in (best, *others[:1], likeliest) or forecast.probability_best >= limit:
            return None
        if (
            forecast.high >= forecasts[best].low
            and fit_curves([self._curve(trial)])[0].verdict is Verdict.NOT_IDENTIFIABLE
        ):
            return None
        mine, leader = self._in_units(forecast), self._in_units(forecasts[best])
        return Why(
            f"P(trial {trial} is best at {self.target:g}) is {forecast.probability_best:.2g}, below {limit:.2g}; trial "
            f"{best} is predicted {leader} against {mine}",
            {
                "probability_best": forecast.probability_best,
                "limit": limit,
                "target": self.target,
                "competing": len(forecasts),
                "trial": trial,
                **dict(zip(("median", "low", "high"), mine, strict=False)),
                "leader_trial": best,
                **dict(zip(("leader_median", "leader_low", "leader_high"), leader, strict=False)),
            },
        )

    def outlooks(self) -> dict[Hashable, TrialForecast]:
        """Return what is predicted of every trial that competes and has a score after its start."""
        return {trial: self._in_units(forecast) for trial, forecast in self._forecasts().items()}

    def _forecasts(self) -> dict[Hashable, TrialForecast]:
        """Carry every curve to the target from its own points; one that was seen before is not fitted again."""
        competing = [name for name, curve in self._trials.items() if curve.competes and curve.at > 0]
        if not competing:
            return {}
        curves, least = [self._curve(name) for name in competing], 0.0
        if self.bounds is None:
            # What a run may still gain is thought of in the widest spread that a run has shown, lest one that has not
            # begun to rise is taken for one that cannot. Rounded, lest one more point calls for all to be fitted anew.
            least = float(2.0 ** np.round(np.log2(prepare(curves).scale.max())))
        keys = [(curve.x.tobytes(), curve.y.tobytes(), least) for curve in curves]
        new = [row for row, key in enumerate(keys) if key not in self._ends]
        for start in range(0, len(new), CHUNK):
            rows = new[start : start + CHUNK]
            prepared = prepare([curves[row] for row in rows], least)
            ends = posterior_of(prepared, Prior()).predict(np.full(len(rows), self.target))
            self._ends.update((keys[row], ends.part(slice(place, place + 1))) for place, row in enumerate(rows))
        self._ends = {key: self._ends[key] for key in keys}
        ends = Mixtures.joined([self._ends[key] for key in keys])
        best = shares_of_best(ends.sample(np.random.default_rng(0), DRAWS).T)
        columns = (*(ends.quantile(level) for level in (0.5, *INTERVAL_ENDS)), ends.average(), best)
        return {name: TrialForecast(*map(float, row)) for name, *row in zip(competing, *columns, strict=True)}

    def _curve(self, trial: Hashable) -> Curve:
        points = self._trials[trial].points
        return Curve.of(str(trial), list(points), list(points.values()), bounded=self.bounds is not None)

    def _in_units(self, forecast: TrialForecast) -> TrialForecast:
        """Return a forecast in the metric's own units."""
        median, *ends, expected = (self._origin + self._unit * value for value in forecast[:-1])
        return TrialForecast(median, min(ends), max(ends), expected, forecast.probability_best)
