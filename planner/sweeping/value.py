"""What a segment is worth: how much better the choice at the target is expected to be when its scores are known.

The knowledge gradient E[max over configurations of the mean after seeing] − max of the mean now, with everything that
is believed taken as jointly normal: means and covariances of scores at the target and of what a segment would show are
those of the draws. One segment speaks for all configurations with which its own is correlated. (Frazier, Powell,
Dayanik: The knowledge-gradient policy for correlated normal beliefs, 2009.)
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from planner.curves.curve import Vector
from planner.pooling.draws import Worlds
from planner.sweeping.offers import Offer

OUTCOMES = 64  # of what a segment may show
JITTER = 1e-12  # added to the variance of the noise, which may be none


class SegmentValues:
    """Gains in the expected score of the choice by each offer, given what is under way and what was just bought.

    What will be known anyway is conditioned on: the draws' columns are changed so that their covariances become those
    that it leaves.
    """

    def __init__(
        self,
        worlds: Worlds,
        offered: Sequence[Offer],
        under_way: Sequence[Offer] = (),
        candidates: NDArray[np.intp] | None = None,
    ) -> None:
        """Take the worlds as they are; `candidates` are the configurations that can be chosen, all without it."""
        self._worlds = worlds
        self.scores = worlds.at_target if candidates is None else worlds.at_target[:, candidates]
        self.means = self.scores.mean(axis=0)
        shown, self._noise = self._would_show(offered)
        self._columns = np.concatenate([self.scores - self.means, shown.reshape(len(shown), -1)], axis=1)
        if under_way:
            self._know(*self._would_show(under_way))

    def gains(self, places: Sequence[int]) -> Vector:
        """Return for each of these offers, by its place, how much the expected score of the choice would rise."""
        if not len(places):
            return np.zeros(0)
        size = len(self.scores)
        shown = self._shown[:, places]
        flat = shown.reshape(size, -1)
        cross = (self._columns[:, : len(self.means)].T @ flat / size).reshape(-1, len(places), 2).transpose(1, 0, 2)
        each = shown.transpose(1, 0, 2)  # the two scores of each segment
        noise = (self._noise[places] + JITTER)[:, None, None] * np.eye(2)
        covariance = each.transpose(0, 2, 1) @ each / size + noise
        moves = cross @ np.linalg.cholesky(np.linalg.inv(covariance))
        after = (moves.reshape(-1, 2) @ _OUTCOMES.T).reshape(*moves.shape[:2], OUTCOMES)
        after += self.means[:, None]
        best = after.max(axis=1)
        return np.asarray(np.maximum(best.mean(axis=1) - self.means.max(), 0.0))

    def expect(self, place: int) -> None:
        """Count what an offer will show as known, though not yet what it is."""
        self._know(self._shown[:, place : place + 1], self._noise[place : place + 1])

    @property
    def _shown(self) -> Vector:
        """Draws × offers × 2."""
        return self._columns[:, len(self.means) :].reshape(len(self.scores), -1, 2)

    def _know(self, shown: Vector, noise: Vector) -> None:
        """Leave of columns X what these do not tell: XᵀX becomes Xᵀ(1 + U Uᵀ)⁻¹X, U these over √(draws · noise)."""
        size = len(self.scores)
        told = (shown / np.sqrt(size * (noise + JITTER))[:, None]).reshape(size, -1)
        self._columns = _left(told, self._columns)

    def _would_show(self, offered: Sequence[Offer]) -> tuple[Vector, Vector]:
        """Return draws × segments × 2, the scores in the middle and at the end of each, centred, and their noise."""
        if not offered:
            return np.zeros((len(self.scores), 0, 2)), np.zeros(0)
        ends = np.array([[each.from_gpu_hours, each.to_gpu_hours] for each in offered]) / self._worlds.target
        x = np.stack([ends.mean(axis=1), ends[:, 1]], axis=1)
        configuration = np.array([self._worlds.place[each.configuration] for each in offered])
        run = np.array(
            [-1 if each.trial is None else self._worlds.run_of.get(each.trial.trial, -1) for each in offered]
        )
        scores = self._worlds.observed(configuration, run, x)
        noise = 2 * self._worlds.noise_of_a_score / np.array([each.scores for each in offered])
        return scores - scores.mean(axis=0), noise


def _left(told: Vector, columns: Vector) -> Vector:
    """Return M · columns, where MᵀM = (1 + U Uᵀ)⁻¹, by Cholesky's factor of the smaller of 1 + U Uᵀ and 1 + Uᵀ U.

    Of the latter, L Lᵀ, it is M = 1 − U (L (L + 1)ᵀ)⁻¹ Uᵀ. (Andrews: A square root formulation of the Kalman
    covariance equations, 1968.)
    """
    size, number = told.shape
    if number > size:
        return np.asarray(np.linalg.solve(np.linalg.cholesky(told @ told.T + np.eye(size)), columns))
    identity = np.eye(number)
    root = np.linalg.cholesky(told.T @ told + identity)
    return np.asarray(columns - told @ np.linalg.solve(root @ (root + identity).T, told.T @ columns))


def _spread_outcomes() -> Vector:
    """Return pairs of normal numbers that are spread evenly: a rank-one lattice through the inverse distribution."""
    number = np.arange(OUTCOMES)
    golden = 0.618033988749895
    pairs = np.stack([ndtri((number + 0.5) / OUTCOMES), ndtri((number * golden + 0.5) % 1.0)], axis=1)
    pairs -= pairs.mean(axis=0)
    return np.asarray(pairs @ np.linalg.inv(np.linalg.cholesky(np.cov(pairs.T, bias=True))).T)


_OUTCOMES = _spread_outcomes()
