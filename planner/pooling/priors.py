"""What is believed of the coefficients before a curve is seen: today's spread, or what earlier sweeps make of it.

Each source of experience is one more kind of member of the grid, with a normal prior of its own; the evidence of the
curves averages them, as it averages scatters and drifts. "none" is the prior without any source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Vector
from planner.pooling.features import Features

NONE: Final = "none"
# A source's surface stands in the place of the plan's, whose weights are held at 0 in its members.
PLAN_SD: Final = 1e-3


@dataclass(frozen=True)
class LearntPrior:
    """The prior of the coefficients of `Features.terms`, given one source or several."""

    name: str
    mean: Vector  # (t,)
    covariance: Vector  # (t, t)
    weight: float  # before a curve is seen


class PriorSource(Protocol):
    """Whatever earlier sweeps have left behind, as a prior of the one at hand."""

    def priors(self, smooth: Features, target_gpu_hours: float) -> tuple[LearntPrior, ...]:
        """Return priors whose weights sum to less than 1; the rest is that of no source."""
        ...


@dataclass(frozen=True)
class CoefficientPrior:
    """The normal prior of every member of the grid, with the covariance of its source or of none."""

    mean: Vector  # (h, p)
    source: NDArray[np.intp]
    precision: Vector  # (h, p, p)
    half_log_volume: Vector  # (h,)

    def misfit(self, coefficients: Vector) -> Vector:
        """Return half the squared distance in standard deviations."""
        return np.asarray(0.5 * ((coefficients - self.mean) * self.pull(coefficients)).sum(axis=1))

    def pull(self, coefficients: Vector) -> Vector:
        """Return its slope."""
        return np.asarray((self.precision @ (coefficients - self.mean)[..., None])[..., 0])

    def of(self, members: NDArray[np.intp]) -> "CoefficientPrior":
        """Return that of some members."""
        return CoefficientPrior(*(each[members] for each in vars(self).values()))


def prior_of(
    features: Features, top: Vector, middle: Vector, learnt: Sequence[LearntPrior]
) -> tuple[CoefficientPrior, Vector]:
    """Return the prior of a member for each pair of a top and a middle and each source, and its log weight."""
    kinds = [(features.mean, np.diag(features.sd**2)), *(_padded(features, each) for each in learnt)]
    weights = [1.0 - sum(each.weight for each in learnt), *(each.weight for each in learnt)]
    mean = np.repeat([mean for mean, _ in kinds], len(top), axis=0)
    mean[:, features.top], mean[:, features.middle] = np.tile(top, len(kinds)), np.tile(middle, len(kinds))
    precision = np.array([np.linalg.inv(covariance) for _, covariance in kinds])
    volume = np.array([0.5 * np.linalg.slogdet(covariance)[1] for _, covariance in kinds])
    source = np.repeat(np.arange(len(kinds)), len(top))
    return CoefficientPrior(mean, source, precision[source], volume[source]), np.log(weights)[source]


def _padded(features: Features, learnt: LearntPrior) -> tuple[Vector, Vector]:
    """Return a source's prior of all coefficients: the plan's prior has no say in it."""
    known = len(features.terms)
    mean = np.concatenate([learnt.mean, np.zeros(len(features.mean) - known)])
    covariance = np.eye(len(mean)) * PLAN_SD**2
    covariance[:known, :known] = learnt.covariance
    return mean, covariance
