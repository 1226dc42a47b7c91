"""Distributions of scores in [0, 1] on a fixed grid, and sums over many of them that cost only what changed."""

import numpy as np

from planner.curves.curve import Vector

BINS = 200
EDGES: Vector = np.linspace(0.0, 1.0, BINS + 1)
MIDDLES: Vector = (EDGES[1:] + EDGES[:-1]) / 2
BLOCK = 64
LEAST = 1e-300


def masses(upper: Vector) -> Vector:
    """Return the probability of each bin from P(score ≤ its upper edge), on the last axis."""
    return np.asarray(np.diff(upper, axis=-1, prepend=0.0))


def quantile(upper: Vector, level: float) -> Vector:
    """Return a quantile of each row of P(score ≤ upper edge), linear within a bin."""
    row = np.arange(len(upper))
    place = np.minimum((upper < level).sum(axis=1), BINS - 1)
    above = upper[row, place]
    below = np.where(place > 0, upper[row, place - 1], 0.0)
    share = np.clip((level - below) / np.maximum(above - below, LEAST), 0.0, 1.0)
    return np.asarray(EDGES[place] + share / BINS)


class SummedRows:
    """A growing matrix with its column sums, for which only blocks with a changed row are added up again.

    Blocks are added in order, so that the sums depend on the rows alone and not on the order in which they came.
    """

    def __init__(self, columns: int = BINS) -> None:
        self._rows = np.zeros((0, columns))
        self._blocks = np.zeros((0, columns))
        self._stale: set[int] = set()
        self._used = 0

    @property
    def rows(self) -> Vector:
        """All rows."""
        return self._rows[: self._used]

    def put(self, row: int, values: Vector | float) -> None:
        """Set a row; rows in between that were never set are zero."""
        if row >= len(self._rows):
            blocks = 2 * (row // BLOCK + 1)
            self._rows = _grown(self._rows, blocks * BLOCK)
            self._blocks = _grown(self._blocks, blocks)
        self._rows[row] = values
        self._used = max(self._used, row + 1)
        self._stale.add(row // BLOCK)

    def total(self) -> Vector:
        """Return the column sums."""
        for block in self._stale:
            self._blocks[block] = self._rows[block * BLOCK : (block + 1) * BLOCK].sum(axis=0)
        self._stale.clear()
        return np.asarray(self._blocks[: -(-self._used // BLOCK)].sum(axis=0))


def _grown(old: Vector, length: int) -> Vector:
    new = np.zeros((length, old.shape[1]))
    new[: len(old)] = old
    return new
