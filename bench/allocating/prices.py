"""What an update costs on a quiet machine, from updates timed on a busy one.

Neighbours on a shared machine make an update take up to several times as long, for minutes at a time. Two things are
known all the same. A validation is always the same work, so how long it takes, against the quickest, says how busy the
machine is around it: updates are divided by that load. And the work of an update is known, so its price can be
seconds = fixed + per rollout · rollouts + per prompt · prompts, for generating and for training: the median of what is
left (quantile regression: Koenker and Bassett 1978) over all cells and seeds at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, eye, hstack

from budgets.errors import InputError

Vector = NDArray[np.float64]

QUIET = 0.05  # so many of the validations were not slowed down
_NEIGHBOURS = 3  # validations around a moment whose median is its load
_MOST_UPDATES = 60  # of one run that enter the fit: every run counts alike
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, eq=False)
class Work:
    """What each update of a run did, how long it took, and whether a validation followed; row 0 is before training."""

    per_prompt: int
    generated: Vector  # rollouts
    trained: Vector  # rollouts; fewer where groups are dropped
    generating: Vector  # seconds
    training: Vector  # seconds, all but generation and validation
    validating: Vector  # seconds, 0 where there was none
    validated: NDArray[np.bool_]

    @property
    def measured(self) -> Vector:
        """Seconds up to each row."""
        return np.cumsum(self.generating + self.training + self.validating)

    def load(self, quiet_validation: float) -> Vector:
        """Return how many times as long as on a quiet machine things took around each row, by the validations."""
        rows = np.flatnonzero(self.validated)
        padded = np.pad(self.validating[rows], _NEIGHBOURS // 2, mode="edge")
        around = np.median(np.lib.stride_tricks.sliding_window_view(padded, _NEIGHBOURS), axis=1)
        times = np.log(np.maximum(around / quiet_validation, 1.0))
        return np.asarray(np.exp(np.interp(np.arange(self.validated.size), rows, times)))


@dataclass(frozen=True)
class Price:
    """Seconds of one side of an update."""

    fixed: float
    per_rollout: float
    per_prompt: float

    def of(self, rollouts: Vector, per_prompt: int) -> Vector:
        """Return the seconds of so many rollouts, nothing for none."""
        prompts = rollouts / per_prompt
        seconds = self.fixed + self.per_rollout * rollouts + self.per_prompt * prompts
        return np.where(rollouts > 0, seconds, 0.0)


@dataclass(frozen=True)
class Prices:
    """Both sides of an update, and a validation."""

    generating: Price
    training: Price
    validating: float

    def update(self, work: Work) -> Vector:
        """Return the seconds of each update."""
        return self.generating.of(work.generated, work.per_prompt) + self.training.of(work.trained, work.per_prompt)

    def gpu_hours(self, work: Work) -> Vector:
        """Return the hours of one worker up to each row, validations included."""
        seconds = np.cumsum(self.update(work) + work.validated * self.validating)
        return np.asarray(seconds / _SECONDS_PER_HOUR)


def quiet_prices(works: Sequence[Work]) -> Prices:
    """Return the prices of a quiet machine."""
    if not works:
        raise InputError("no run to take prices from: make some with `python bench/allocbench.py make`")
    validation = float(np.quantile(np.concatenate([work.validating[work.validated] for work in works]), QUIET))
    generating: list[tuple[Vector, Vector, Vector]] = []
    training: list[tuple[Vector, Vector, Vector]] = []
    for work in works:
        load = work.load(validation)
        for side, rollouts, seconds in (
            (generating, work.generated, work.generating),
            (training, work.trained, work.training),
        ):
            rows = np.flatnonzero((work.generated > 0) & (rollouts > 0))
            if rows.size:
                rows = rows[np.unique(np.linspace(0, rows.size - 1, _MOST_UPDATES).astype(int))]
                side.append((rollouts[rows], rollouts[rows] / work.per_prompt, seconds[rows] / load[rows]))
    return Prices(_line(generating), _line(training), validation)


def _line(runs: Sequence[tuple[Vector, Vector, Vector]]) -> Price:
    """Fit the median by linear programming; rows are divided by their run's, so that relative deviations count."""
    features = np.concatenate([np.column_stack([np.ones_like(a), a, b]) / np.median(c) for a, b, c in runs])
    values = np.concatenate([seconds / np.median(seconds) for _, _, seconds in runs])
    count = values.size
    scale = features.max(axis=0)
    constraint = hstack([csr_matrix(features / scale), eye(count), -eye(count)], format="csr")
    costs = np.concatenate([np.zeros(3), np.ones(2 * count)])
    found = linprog(costs, A_eq=constraint, b_eq=values, bounds=(0, None), method="highs")
    return Price(*(float(value) for value in found.x[:3] / scale))
