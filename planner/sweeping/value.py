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


class Value:
    """Gains in the expected score of the choice, given what is under way and what was just bought."""

    def __init__(self, worlds: Worlds, candidates: NDArray[np.intp] | None = None) -> None:
        """Take the worlds as they are; `candidates` are the configurations that can be chosen, all without it."""
        self._worlds = worlds
        self.scores = worlds.at_target if candidates is None else worlds.at_target[:, candidates]
        self.means = self.scores.mean(axis=0)
        self._rest = self.scores - self.means
        self._shown: list[Vector] = []

    def gains(self, offered: Sequence[Offer]) -> Vector:
        """Return for each offer how much the expected score of the choice would rise."""
        if not offered:
            return np.zeros(0)
        shown, noise = self._would_show(offered)
        shown = self._left(shown)
        size = len(self.scores)
        flat = shown.transpose(1, 0, 2).reshape(shown.shape[1], -1)
        cross = (self._rest.T @ flat / size).reshape(-1, len(offered), 2).transpose(1, 0, 2)
        moves = cross @ np.linalg.cholesky(np.linalg.inv(_covariance(shown, noise, size)))
        best = (self.means + _OUTCOMES @ moves.transpose(0, 2, 1)).max(axis=2)
        return np.asarray(np.maximum(best.mean(axis=1) - self.means.max(), 0.0))

    def expect(self, offer: Offer) -> None:
        """Count what a segment will show as known, though not yet what it is."""
        shown, noise = self._would_show([offer])
        # Rows of the noise alone make least squares give exactly the covariance that is left.
        known = np.concatenate([self._left(shown)[0], np.sqrt(noise[0] * len(self.scores)) * np.eye(2)])
        self._rest = _residual(known, np.concatenate([self._rest, np.zeros((2, self._rest.shape[1]))]))
        self._shown.append(known)

    def _left(self, shown: Vector) -> Vector:
        """Return what of the scores the expected segments leave open."""
        for known in self._shown:
            shown = _residual(known, np.concatenate([shown, np.zeros((len(shown), 2, 2))], axis=1))
        return shown

    def _would_show(self, offered: Sequence[Offer]) -> tuple[Vector, Vector]:
        """Return draws of the scores in the middle and at the end of each segment, centred, and their noise."""
        target = self._worlds.target
        ends = np.array([[each.from_gpu_hours, each.to_gpu_hours] for each in offered]) / target
        x = np.stack([ends.mean(axis=1), ends[:, 1]], axis=1)
        configuration = np.array([self._worlds.place[each.configuration] for each in offered])
        run = np.array(
            [-1 if each.trial is None else self._worlds.run_of.get(each.trial.trial, -1) for each in offered]
        )
        scores = self._worlds.observed(configuration, run, x)
        noise = 2 * self._worlds.noise_of_a_score / np.array([each.scores for each in offered])
        return (scores - scores.mean(axis=0)).transpose(1, 0, 2), noise


def _residual(known: Vector, of: Vector) -> Vector:
    inner = known.T @ known + 1e-12 * len(known) * np.eye(2)
    return np.asarray(of - known @ np.linalg.solve(inner, known.T @ of))


def _covariance(shown: Vector, noise: Vector, size: int) -> Vector:
    """Of the two scores of each segment."""
    return np.asarray(shown.transpose(0, 2, 1) @ shown / size + (noise + 1e-12)[:, None, None] * np.eye(2))


def _spread_outcomes() -> Vector:
    """Return pairs of normal numbers that are spread evenly: a rank-one lattice through the inverse distribution."""
    number = np.arange(OUTCOMES)
    golden = 0.618033988749895
    pairs = np.stack([ndtri((number + 0.5) / OUTCOMES), ndtri((number * golden + 0.5) % 1.0)], axis=1)
    pairs -= pairs.mean(axis=0)
    return np.asarray(pairs @ np.linalg.inv(np.linalg.cholesky(np.cov(pairs.T, bias=True))).T)


_OUTCOMES = _spread_outcomes()
