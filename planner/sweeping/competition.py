"""Which configuration has the highest score at the target: exact probabilities from distributions on the grid.

P(i is best) = Σ_x P(i at x) Π_{j≠i} P(j ≤ x), configurations being independent. Configurations that share the bin of
the maximum are told apart by how likely each was to be in it: with G(x) = Π_j F_j(x) and r_i = f_i / (F_i − f_i/2),
P(i) = Σ_x (G(x) − G(x−)) · r_i(x) / Σ_j r_j(x), which adds up to one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Vector
from planner.sweeping.grid import BINS, LEAST, MIDDLES, SummedRows, masses
from planner.sweeping.table import Table
from planner.view import Configuration

Mask = NDArray[np.bool_]

# How many runs a uniform score in [0, 1] counts as in what is expected of a configuration without a curve.
UNIFORM_RUNS = 2.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Probabilities of each configuration to be the best: of all that compete, and of those with a curve alone."""

    among_all: Vector
    among_seen: Vector
    of_each_unseen: float
    unseen: int  # configurations that compete without a curve
    unseen_upper: Vector  # what is expected of one of them: P(score ≤ upper edge)
    expected_maximum: float  # of those with a curve


class Competition:
    """Keeps the distribution of every configuration, the average of its seeds', and sums over all of them.

    Configurations are numbered as they appear in the table. One without a curve is expected to score as the
    runs so far are predicted to, whatever became of them, two runs with a uniform score added: so it counts, and the
    more the less is known.
    """

    def __init__(self) -> None:
        self.members: list[list[int]] = []  # rows of each configuration
        self._number_of: dict[Configuration, int] = {}
        self._of_row: list[int] = []
        self._configurations = np.zeros(0, dtype=np.intp)
        self._log_upper, self._share = SummedRows(), SummedRows()
        self._means = np.zeros(0)
        self._runs = SummedRows()
        self._unseen: set[int] = set()

    def follow(self, table: Table, changed: Iterable[int], upper: Vector, seen: Mask) -> None:
        """Take over rows that changed; `upper` has the rows' distributions where `seen` says that there is one."""
        touched = set()
        for row in changed:
            if row >= len(self._of_row):
                number = self._number_of.setdefault(table.trials[row].configuration, len(self.members))
                if number == len(self.members):
                    self.members.append([])
                self.members[number].append(row)
                self._of_row.append(number)
            touched.add(self._of_row[row])
            self._runs.put(row, masses(upper[row]) if seen[row] else 0.0)
        if len(self._of_row) > len(self._configurations):
            self._configurations = np.array(self._of_row, dtype=np.intp)
            self._means = np.append(self._means, np.full(len(self.members) - len(self._means), -np.inf))
        competing, alive = table["competing"], table["alive"]
        competes = seen & competing
        for number in sorted(touched):
            self._renew(number, upper, competes, alive)

    def _renew(self, number: int, upper: Vector, competes: Mask, alive: Mask) -> None:
        rows = [row for row in self.members[number] if competes[row]]
        self._unseen.discard(number)
        if not rows:
            self._log_upper.put(number, 0.0)
            self._share.put(number, 0.0)
            self._means[number] = -np.inf
            if any(alive[row] for row in self.members[number]):
                self._unseen.add(number)
            return
        mean_upper = upper[rows].mean(axis=0)
        self._log_upper.put(number, np.log(np.maximum(mean_upper, LEAST)))
        self._share.put(number, _share(mean_upper))
        self._means[number] = float(masses(mean_upper) @ MIDDLES)

    @property
    def means(self) -> Vector:
        """Expected score of each configuration, −∞ for those that do not compete with a curve."""
        return self._means.copy()

    @property
    def configurations(self) -> NDArray[np.intp]:
        """The configuration of each row."""
        return self._configurations

    def outcome(self, runs: int) -> Outcome:
        """Return who wins; `runs` is the number of trials that have a curve."""
        expected = (UNIFORM_RUNS / BINS + self._runs.total()) / (UNIFORM_RUNS + runs)
        unseen_upper = np.minimum(np.cumsum(expected), 1.0)
        unseen_upper[-1] = 1.0
        log_seen, share_seen, unseen = self._log_upper.total(), self._share.total(), len(self._unseen)
        unseen_share = _share(unseen_upper)
        of_all = _weights(
            log_seen + unseen * np.log(np.maximum(unseen_upper, LEAST)), share_seen + unseen * unseen_share
        )
        maximum = masses(np.exp(log_seen))
        of_seen = _weights(log_seen, share_seen)
        # Two products, since one with two columns takes a slower way through numpy.
        rows = self._share.rows
        return Outcome(
            among_all=rows @ of_all,
            among_seen=rows @ of_seen,
            of_each_unseen=float(unseen_share @ of_all),
            unseen=unseen,
            unseen_upper=unseen_upper,
            expected_maximum=float(maximum @ MIDDLES),
        )


def _share(upper: Vector) -> Vector:
    """Return f / (F − f/2), between 0 and 2, which is a bin's claim to the maximum when it lies in that bin."""
    mass = masses(upper)
    return np.asarray(mass / np.maximum(upper - mass / 2, LEAST))


def _weights(log_product: Vector, share: Vector) -> Vector:
    return np.asarray(masses(np.exp(log_product)) / np.maximum(share, LEAST))
