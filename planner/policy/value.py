"""What a segment is worth: how much better the choice at the target is expected to be when its scores are known.

The knowledge gradient E[max over configurations of the mean after seeing] − max of the mean now, with everything that
is believed taken as jointly normal: means and covariances of scores at the target and of what a segment would show are
those of the draws. One segment speaks for all configurations with which its own is correlated. (Frazier, Powell,
Dayanik: The knowledge-gradient policy for correlated normal beliefs, 2009.)
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from planner.belief.draws import JointDraws
from planner.curves.curve import Vector
from planner.policy.offers import Offer

OUTCOMES = 64  # of what a segment may show
JITTER = 1e-12  # added to the variance of the noise, which may be none


class SegmentValues:
    """Gains in the expected score of the choice by each offer, given what is under way and what was just bought.

    What will be known anyway is conditioned on: the draws' columns are changed so that their covariances become those
    that it leaves.
    """

    def __init__(
        self,
        joint: JointDraws,
        offered: Sequence[Offer],
        under_way: Sequence[Offer] = (),
        candidates: NDArray[np.intp] | None = None,
    ) -> None:
        """Take the worlds as they are; `candidates` are the configurations that can be chosen, all without it."""
        self._joint = joint
        self.scores = joint.at_target if candidates is None else joint.at_target[:, candidates]
        self.means = self.scores.mean(axis=0)
        shown, self._noise = self._would_show(offered)
        # Of draws: the scores at the target, what the middles of all segments would show, and what their ends would.
        self._columns = np.concatenate([self.scores - self.means, shown[..., 0], shown[..., 1]], axis=1)
        if under_way:
            # Segments of which the worlds expect the same, such as of several seeds, are one with all their scores.
            merged: dict[tuple[object, ...], Offer] = {}
            for offer in under_way:
                key = offer.configuration, _run(offer, joint), offer.from_gpu_hours, offer.to_gpu_hours
                alike = merged.get(key)
                merged[key] = offer if alike is None else replace(offer, scores=alike.scores + offer.scores)
            self._know(*self._would_show(list(merged.values())))

    def gains(self, places: Sequence[int]) -> Vector:
        """Return for each of these offers, by its place, how much the expected score of the choice would rise."""
        if not len(places):
            return np.zeros(0)
        size, configurations, number = len(self.scores), len(self.means), len(self._noise)
        scores = self._columns[:, :configurations]
        middle, end = (
            self._columns[:, configurations : configurations + number],
            self._columns[:, configurations + number :],
        )
        noise = self._noise + JITTER
        of_middle, of_end = (np.einsum("sp,sp->p", part, part) / size + noise for part in (middle, end))
        of_both = np.einsum("sp,sp->p", middle, end) / size
        with_middle, with_end = np.split(scores.T @ self._columns[:, configurations:] / size, 2, axis=1)
        # What is seen, as two independent standard normal numbers, moves the means by these: Cholesky's factor of the
        # inverse of the two scores' covariance, written out.
        within = np.sqrt(of_middle * of_end - of_both**2)
        spread = np.sqrt(of_end)
        first = with_middle * (spread / within) - with_end * (of_both / (within * spread))
        second = with_end / spread
        every = np.array(places, dtype=np.intp)
        first, second = first[:, every], second[:, every]
        # The expected largest mean after each segment, of those that can become the largest.
        farthest = (np.abs(first) * FARTHEST[0] + np.abs(second) * FARTHEST[1]).max(axis=1)
        hopeful = np.flatnonzero(self.means + farthest >= (self.means - farthest).max())
        best = np.full((first.shape[1], OUTCOMES), -np.inf)
        for place in hopeful:  # one after the other: they stay in the processor's cache
            after = np.stack([first[place], second[place]], axis=1) @ _OUTCOMES.T
            after += self.means[place]
            np.maximum(best, after, out=best)
        return np.asarray(np.maximum(best.mean(axis=1) - self.means.max(), 0.0))

    def expect(self, place: int) -> None:
        """Count what an offer will show as known, though not yet what it is."""
        at = len(self.means) + place
        shown = self._columns[:, [at, at + len(self._noise)]]
        self._know(shown[:, np.newaxis], self._noise[place : place + 1])

    def _know(self, shown: Vector, noise: Vector) -> None:
        """Leave of columns X what these do not tell: XᵀX becomes Xᵀ(1 + U Uᵀ)⁻¹X, U these over √(draws · noise)."""
        size = len(self.scores)
        factor = (shown / np.sqrt(size * (noise + JITTER))[:, None]).reshape(size, -1)
        self._columns = _update_columns(factor, self._columns)

    def _would_show(self, offered: Sequence[Offer]) -> tuple[Vector, Vector]:
        """Return draws × segments × 2, the scores in the middle and at the end of each, centred, and their noise."""
        if not offered:
            return np.zeros((len(self.scores), 0, 2)), np.zeros(0)
        ends = np.array([[offer.from_gpu_hours, offer.to_gpu_hours] for offer in offered]) / self._joint.target
        x = np.stack([ends.mean(axis=1), ends[:, 1]], axis=1)
        configuration = np.array([self._joint.place[offer.configuration] for offer in offered])
        scores = self._joint.observed(configuration, np.array([_run(offer, self._joint) for offer in offered]), x)
        noise = 2 * self._joint.noise_of_a_score / np.array([offer.scores for offer in offered])
        return scores - scores.mean(axis=0), noise


def _run(offer: Offer, joint: JointDraws) -> int:
    """Return the place of the run that a segment goes on, −1 for one that the worlds have not."""
    return -1 if offer.trial is None else joint.run_of.get(offer.trial.trial, -1)


def _update_columns(factor: Vector, columns: Vector) -> Vector:
    """Return M · columns, where MᵀM = (1 + U Uᵀ)⁻¹, by Cholesky's factor of the smaller of 1 + U Uᵀ and 1 + Uᵀ U.

    Of the latter, L Lᵀ, it is M = 1 − U (L (L + 1)ᵀ)⁻¹ Uᵀ. (Andrews: A square root formulation of the Kalman
    covariance equations, 1968.)
    """
    size, number = factor.shape
    if number > size:
        return np.asarray(np.linalg.solve(np.linalg.cholesky(factor @ factor.T + np.eye(size)), columns))
    identity = np.eye(number)
    root = np.linalg.cholesky(factor.T @ factor + identity)
    return np.asarray(columns - factor @ np.linalg.solve(root @ (root + identity).T, factor.T @ columns))


def _spread_outcomes() -> Vector:
    """Return pairs of normal numbers that are spread evenly: a rank-one lattice through the inverse distribution."""
    number = np.arange(OUTCOMES)
    golden = 0.618033988749895
    pairs = np.stack([ndtri((number + 0.5) / OUTCOMES), ndtri((number * golden + 0.5) % 1.0)], axis=1)
    pairs -= pairs.mean(axis=0)
    return np.asarray(pairs @ np.linalg.inv(np.linalg.cholesky(np.cov(pairs.T, bias=True))).T)


_OUTCOMES = _spread_outcomes()
FARTHEST: Final = np.abs(_OUTCOMES).max(axis=0)
