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
        at_target = worlds.at(1.0)
        self.scores = at_target if candidates is None else at_target[:, candidates]
        self.means = self.scores.mean(axis=0)
        self._rest = self.scores - self.means
        self._shown: list[tuple[Vector, float]] = []
        self._place = {configuration: index for index, configuration in enumerate(worlds.configurations)}
        self._run = {trial: index for index, trial in enumerate(worlds.runs.trials)}

    def gains(self, offered: Sequence[Offer]) -> Vector:
        """Return for each offer how much the expected score of the choice would rise."""
        if not offered:
            return np.zeros(0)
        shown, noise = self._would_show(offered)
        for known, of_it in self._shown:
            shown = shown - known @ np.linalg.solve(
                _covariance(known[None], np.array([of_it]))[0], known.T @ shown
            ) / len(known)
        size = len(self._rest)
        flat = shown.transpose(1, 0, 2).reshape(size, -1)
        cross = (self._rest.T @ flat / size).reshape(-1, len(offered), 2).transpose(1, 0, 2)
        moves = cross @ np.linalg.cholesky(np.linalg.inv(_covariance(shown, noise)))
        best = (self.means + _OUTCOMES @ moves.transpose(0, 2, 1)).max(axis=2)
        return np.asarray(np.maximum(best.mean(axis=1) - self.means.max(), 0.0))

    def expect(self, offer: Offer) -> None:
        """Count what a segment will show as known, though not yet what it is."""
        shown, noise = self._would_show([offer])
        own = shown[0]
        for known, of_it in self._shown:
            own = own - known @ np.linalg.solve(_covariance(known[None], np.array([of_it]))[0], known.T @ own) / len(
                known
            )
        inner = np.linalg.solve(_covariance(own[None], noise)[0], own.T @ self._rest) / len(own)
        self._rest = self._rest - own @ inner
        self._shown.append((own, float(noise[0])))

    def _would_show(self, offered: Sequence[Offer]) -> tuple[Vector, Vector]:
        """Return draws of the scores in the middle and at the end of each segment, centred, and their noise."""
        target = self._worlds.target
        ends = np.array([[each.from_gpu_hours, each.to_gpu_hours] for each in offered]) / target
        x = np.stack([ends.mean(axis=1), ends[:, 1]], axis=1)
        configuration = np.array([self._place[each.configuration] for each in offered])
        run = np.array([-1 if each.trial is None else self._run.get(each.trial.trial, -1) for each in offered])
        scores = self._worlds.observed(configuration, run, x)
        noise = 2 * self._worlds.noise_of_a_score / np.array([each.scores for each in offered])
        return (scores - scores.mean(axis=0)).transpose(1, 0, 2), noise


def _covariance(shown: Vector, noise: Vector) -> Vector:
    """Of the two scores of each segment."""
    return np.asarray(shown.transpose(0, 2, 1) @ shown / shown.shape[1] + (noise + 1e-12)[:, None, None] * np.eye(2))


def _spread_outcomes() -> Vector:
    """Return pairs of normal numbers that are spread evenly: a rank-one lattice through the inverse distribution."""
    number = np.arange(OUTCOMES)
    golden = 0.618033988749895
    return np.stack([ndtri((number + 0.5) / OUTCOMES), ndtri((number * golden + 0.5 / OUTCOMES) % 1.0)], axis=1)


_OUTCOMES = _spread_outcomes()
