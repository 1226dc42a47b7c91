"""What is believed of every trial at the target, renewed only where something happened."""

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Vector
from planner.sweeping.competition import Competition, Outcome
from planner.sweeping.grid import BINS, MIDDLES, masses, quantile
from planner.sweeping.predictions import Explained, Predictor, SingleCurves
from planner.sweeping.table import Table
from planner.view import Seen, TrialView, View, has_curve

LEVEL = 0.90
UNSEEN = -1.0  # in arrays of figures where there is no curve


@dataclass(frozen=True)
class Belief:
    """What is believed of the mean score of one trial at the target; the interval is of 90 %.

    `probability_best` is that of its configuration, among all that still compete, those without a curve included; it
    is 0 for a trial that is out of the competition.
    """

    verdict: str
    evidence: str
    median: float
    low: float
    high: float
    mean: float
    probability_best: float
    parameters: dict[str, dict[str, float]]
    upto_gpu_hours: float


@dataclass(frozen=True, slots=True)
class Standing:
    """The beliefs about all trials as arrays, a row per trial of the table; valid until the next view is taken up."""

    table: Table
    seen: NDArray[np.bool_]
    upper: Vector  # P(score ≤ upper edge of each bin), rows without a curve zero
    median: Vector
    low: Vector
    high: Vector
    mean: Vector
    sd: Vector
    configuration: NDArray[np.intp]
    competes: NDArray[np.bool_]  # with a curve
    configuration_means: Vector
    outcome: Outcome

    @property
    def probability_best(self) -> Vector:
        """Of each trial's configuration, 0 for those out of the competition or without a curve."""
        return np.where(self.competes, self.outcome.among_all[self.configuration], 0.0)

    @property
    def probability_best_of_seen(self) -> Vector:
        """The same among configurations with a curve alone."""
        return np.where(self.competes, self.outcome.among_seen[self.configuration], 0.0)


class Beliefs:
    """Beliefs about the trials of one view after another; a trial whose scores are the same costs nothing."""

    def __init__(self, predictor: Predictor | None = None) -> None:
        self._predictor = predictor or SingleCurves()
        self._explained: dict[int, tuple[tuple[Seen, ...], Explained]] = {}
        self._last: tuple[View, Standing] | None = None
        self._table, self._competition = Table(), Competition()
        self._upper, self._seen = np.zeros((0, BINS)), np.zeros(0, dtype=bool)
        self._figures = np.zeros((0, 5))  # median, low, high, mean, sd

    def of(self, view: View) -> "BeliefMap":
        """Return the belief about each trial that has a score at positive GPU-hours, by its id."""
        return BeliefMap(self.standing(view), self)

    def standing(self, view: View) -> Standing:
        """Return the beliefs as arrays."""
        if self._last is not None and view is self._last[0]:
            return self._last[1]
        if self._last is not None and view.target_gpu_hours != self._last[0].target_gpu_hours:
            self._table, self._competition = Table(), Competition()
        table = self._table
        before, changed = table.trials, table.follow(view)
        if table.restarted:
            before, self._competition = [], Competition()
        self._grow(len(table))
        self._predict(
            [row for row in changed if row >= len(before) or not _same_scores(before[row], table.trials[row])], view
        )
        self._competition.follow(table, changed, self._upper, self._seen[: len(table)])
        standing = self._summary()
        self._last = view, standing
        return standing

    def explain(self, trials: Sequence[TrialView]) -> list[Explained]:
        """Return verdicts and parameters of trials that have a curve, all new ones in one go."""
        new = [trial for trial in trials if not self._is_explained(trial)]
        for trial, explained in zip(new, self._predictor.explain(new), strict=True):
            self._explained[trial.trial] = (trial.scores, explained)
        return [self._explained[trial.trial][1] for trial in trials]

    def _is_explained(self, trial: TrialView) -> bool:
        known = self._explained.get(trial.trial)
        return known is not None and (known[0] is trial.scores or known[0] == trial.scores)

    def _grow(self, rows: int) -> None:
        if rows > len(self._upper):
            more = 2 * rows - len(self._upper)
            self._upper = np.vstack([self._upper, np.zeros((more, BINS))])
            self._seen = np.append(self._seen, np.zeros(more, dtype=bool))
            self._figures = np.vstack([self._figures, np.full((more, 5), UNSEEN)])

    def _predict(self, rows: list[int], view: View) -> None:
        trials = self._table.trials
        with_curve = [row for row in rows if has_curve(trials[row])]
        self._seen[rows] = False
        self._upper[rows] = 0.0
        self._figures[rows] = UNSEEN
        if not with_curve:
            return
        upper = self._predictor.cumulative([trials[row] for row in with_curve], view.target_gpu_hours)
        mass = masses(upper)
        # Sums, not products of matrices, whose last bits depend on how many rows are multiplied in one go.
        mean = (mass * MIDDLES).sum(axis=1)
        variance = np.maximum((mass * MIDDLES**2).sum(axis=1) - mean**2, 0.0)
        levels = (0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2)
        self._upper[with_curve], self._seen[with_curve] = upper, True
        self._figures[with_curve] = np.stack(
            [*(quantile(upper, level) for level in levels), mean, np.sqrt(variance)], axis=1
        )

    def _summary(self) -> Standing:
        rows = len(self._table)
        seen = self._seen[:rows].copy()
        median, low, high, mean, sd = self._figures[:rows].T.copy()
        return Standing(
            table=self._table,
            seen=seen,
            upper=self._upper,
            median=median,
            low=low,
            high=high,
            mean=mean,
            sd=sd,
            configuration=self._competition.configurations,
            competes=seen & self._table["competing"],
            configuration_means=self._competition.means,
            outcome=self._competition.outcome(int(seen.sum())),
        )


class BeliefMap(Mapping[int, Belief]):
    """Beliefs by trial id; verdicts are found when they are looked at, in one go by `items` and `values`."""

    def __init__(self, standing: Standing, beliefs: Beliefs) -> None:
        self._standing, self._beliefs = standing, beliefs
        self._trials, self._row_of = standing.table.trials, standing.table.row_of
        self._probability = standing.probability_best

    def __len__(self) -> int:
        return int(self._standing.seen.sum())

    def __iter__(self) -> Iterator[int]:
        return (self._trials[row].trial for row in np.flatnonzero(self._standing.seen))

    def __contains__(self, trial: object) -> bool:
        row = self._row_of.get(trial) if isinstance(trial, int) else None
        return row is not None and row < len(self._trials) and bool(self._standing.seen[row])

    def __getitem__(self, trial: int) -> Belief:
        if trial not in self:
            raise KeyError(trial)
        row = self._row_of[trial]
        standing, view = self._standing, self._trials[row]
        explained = self._beliefs.explain([view])[0]
        return Belief(
            verdict=explained.verdict,
            evidence=explained.evidence,
            median=float(standing.median[row]),
            low=float(standing.low[row]),
            high=float(standing.high[row]),
            mean=float(standing.mean[row]),
            probability_best=float(self._probability[row]),
            parameters=explained.parameters,
            upto_gpu_hours=view.scores[-1].gpu_hours,
        )

    def items(self) -> ItemsView[int, Belief]:
        """Return trial ids with their beliefs."""
        self._explain_all()
        return super().items()

    def values(self) -> ValuesView[Belief]:
        """Return the beliefs."""
        self._explain_all()
        return super().values()

    def _explain_all(self) -> None:
        self._beliefs.explain([self._trials[row] for row in np.flatnonzero(self._standing.seen)])


def _same_scores(old: TrialView, new: TrialView) -> bool:
    return old.trial == new.trial and (old.scores is new.scores or old.scores == new.scores)
