"""The noise of measured pass rates: few samples, a policy that wanders, evaluations that go wrong."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from planner.curves.curve import Vector


@dataclass(frozen=True)
class Noise:
    """A score is a binomial share of `samples`, about a mean that wanders as an AR(1) process; some are garbage."""

    samples: int
    wander_sd: float = 0.0
    wander_correlation: float = 0.0
    outlier_rate: float = 0.0

    def scores(self, mean: Vector, rng: Generator) -> Vector:
        """Draw the measured scores; a mean of exactly 0 or 1 (a dead policy, a ceiling) stays exact, outliers aside."""
        certain = (mean <= 0) | (mean >= 1)
        wandering = np.where(certain, mean, mean + self._wander(mean.size, rng))
        measured = rng.binomial(self.samples, np.clip(wandering, 0, 1)) / self.samples
        outlying = rng.random(mean.size) < self.outlier_rate
        # A broken evaluation scores nothing, or anything.
        garbage = np.where(rng.random(mean.size) < 0.5, 0.0, rng.random(mean.size))
        return np.where(outlying, garbage, measured)

    def sd(self, mean: Vector) -> float:
        """Return the root mean square of one score's deviation from the mean, outliers aside."""
        spread = mean * (1 - mean)
        wander = np.where(spread > 0, self.wander_sd**2, 0.0)
        # A binomial about a wandering mean has the variance E[p(1 − p)]/samples + var(p).
        return float(np.sqrt(np.mean((spread - wander) / self.samples + wander)))

    def _wander(self, size: int, rng: Generator) -> Vector:
        wander = rng.normal(size=size) * self.wander_sd
        kick_share = np.sqrt(1 - self.wander_correlation**2)  # keeps the sd the same from the first point on
        for i in range(1, size):
            wander[i] = self.wander_correlation * wander[i - 1] + kick_share * wander[i]
        return wander


def evaluation(rng: Generator) -> Noise:
    """Score each point on a validation set of 300–1,300 problems, once."""
    return Noise(samples=int(rng.integers(300, 1301)))


def precise(rng: Generator) -> Noise:
    """Score each point on 2,000–16,000 answers, as ScaleRL does with 1,000 problems × 16."""
    return Noise(samples=int(rng.integers(2000, 16001)))


def small_batch(rng: Generator) -> Noise:
    """Take the training reward of 8–64 rollouts as the score."""
    return Noise(samples=int(rng.integers(8, 65)))


def autocorrelated(rng: Generator) -> Noise:
    """Evaluate a policy that wanders by 0.01–0.04 and takes some points to come back."""
    wander_sd, correlation = rng.uniform(0.01, 0.04), rng.uniform(0.5, 0.95)
    return replace(evaluation(rng), wander_sd=wander_sd, wander_correlation=correlation)


def with_outliers(rng: Generator) -> Noise:
    """Get 1–4 % of the evaluations wrong."""
    return replace(typical(rng), outlier_rate=rng.uniform(0.01, 0.04))


def typical(rng: Generator) -> Noise:
    """Score as runs are usually scored: 60 % by evaluation, 15 % precisely, 25 % by small batches."""
    return (evaluation, precise, small_batch)[rng.choice(3, p=(0.6, 0.15, 0.25))](rng)
