"""How curves go on beyond the compute that their configuration has reached, where recorded runs leave what was fitted.

Of 1 − score the fitted curve leaves a share from there on. By recorded runs that share falls by a power of the compute
at most once scores are high, whose exponent has nothing to do with how steeply the curve rose; and it falls faster with
large batches than with small ones, whose lead shrinks. Both act on the share, so that scores stay below 1, and that
of a configuration stands where it was seen last.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Vector
from planner.view import Configuration

# Each of AllocBench's five tasks left out, the others are without bias in B at 0.056 to 0.074; drawn tables are
# without it at 0 (bench/results/decisions.md). Rollouts per prompt have no such effect.
PACE_OF_AN_OCTAVE: Final = 0.05  # of prompts per batch: the logarithm of the share counts by exp of so much more
LATE_SCORE: Final = 0.7  # from which on the power law holds
# Medians of AllocBench's six tables lie between 0.40 and 1.09; within one the logarithm varies by 0.16 to 0.23.
LATE_EXPONENT: Final = 0.7
TASK_SD, CONFIGURATION_SD = 0.4, 0.2  # of its logarithm
LEAST_MISSING: Final = 1e-6  # of a score


def paces(configurations: Sequence[Configuration], of: NDArray[np.intp]) -> Vector:
    """Return how fast each configuration closes what is missing, beside the mean of those that runs are of."""
    octaves = np.log2([configuration.prompts_per_batch for configuration in configurations])
    return np.asarray(np.exp(PACE_OF_AN_OCTAVE * (octaves - octaves[of].mean()))) if len(of) else np.ones(len(octaves))


def draw_late_exponents(size: int, configurations: int, generator: np.random.Generator) -> Vector:
    """Draw exponents that a task's configurations mostly have alike."""
    task, own = generator.standard_normal((size, 1)), generator.standard_normal((size, configurations))
    return np.asarray(LATE_EXPONENT * np.exp(TASK_SD * task + CONFIGURATION_SD * own))


def extrapolated(scores: Vector, at_reach: Vector, e_folds: Vector, late_exponent: Vector, pace: Vector) -> Vector:
    """Return draws × rows of scores so many e-folds of compute beyond where curves were `at_reach`."""
    missing = np.maximum(1 - at_reach, LEAST_MISSING)
    share = np.maximum(1 - scores, LEAST_MISSING) / missing
    np.maximum(share, np.exp(-e_folds * late_exponent), out=share, where=at_reach >= LATE_SCORE)
    return np.asarray(1 - missing * share**pace)
