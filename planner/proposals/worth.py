"""What pilots are worth: at which score the final run is expected to end that a sweep chooses after them.

Final scores are drawn from the prior: the worlds' mean and spread, and what each cell has of its own, which neighbours
share. A pilot shows its cell's score with an error that grows with how far the final run lies beyond it. A sweep begins
with what the plan expects of its cells, and is moved by what surprises, for each cell as far as it is like the piloted
ones. So the cell that it would choose is worked out for every draw, and what that is worth there. The final run's
being shorter by the pilots' money is in the means that are given.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.proposals.pilots import octaves
from planner.proposals.request import PilotGrant, PricedCell
from planner.view import Axes, Configuration

Values = NDArray[np.float64]

OWN_SD: Final = 0.05  # of the gain: what no study foretells of a cell; AllocBench's cells lie 0.044 apart in all
OWN_OCTAVES: Final = 3.0  # over which neighbours have less and less of that in common [A]
DRAWS: Final = 1024  # of scores and of what pilots show of them, each with its mirror image
# The error of what a pilot shows, by how many times as far the final run goes, over the spread of the cells' scores:
# what `python -m bench.pilot_worth` prints for AllocBench and the held-out tables together.
ERRORS: Final = ((1.0, 0.4), (2.0, 0.65), (5.0, 1.3), (10.0, 2.1), (20.0, 2.4), (50.0, 2.9))


def score_after_pilots(
    cells: Sequence[PricedCell], grants: Mapping[Configuration, PilotGrant], weights: Sequence[float]
) -> float:
    """Return the expected final score of the cell that a sweep of the pilots chooses; without any, of the best."""
    means: Values = np.array([cell.expected_score.median for cell in cells])
    piloted = [place for place, cell in enumerate(cells) if grants[cell.configuration].steps]
    if not piloted:
        return float(means.max())
    likeness = own_likeness([cell.configuration for cell in cells])
    spread = _covariance(cells, np.asarray(weights), likeness)
    # Between two cells of the grid, as of a table's: by what is expected of them, and by what is not known of them.
    between = math.sqrt(means.var() + spread.diagonal().mean())
    longer = [cells[place].allocation.update_steps / grants[cells[place].configuration].steps for place in piloted]
    distances, errors_there = np.array(ERRORS).T
    errors = between * np.interp(np.log(np.maximum(1.0, longer)), np.log(distances), errors_there)
    draws = _normal(len(cells) + len(piloted))
    apart = draws[:, : len(cells)] @ np.linalg.cholesky(spread).T
    surprise = apart[:, piloted] + draws[:, len(cells) :] * errors
    moved = _moved(surprise, between**2 * likeness[piloted], piloted, errors)
    # A draw's mirror image has the other sign in all of this, so that the mean of each cell is what is expected of it.
    chosen, mirrored = (means + moved).argmax(axis=1), (means - moved).argmax(axis=1)
    gained = apart[np.arange(DRAWS), chosen] - apart[np.arange(DRAWS), mirrored]
    return float((means[chosen] + means[mirrored] + gained).mean() / 2)


@lru_cache(maxsize=16)
def _normal(width: int) -> Values:
    """Return the draws, which are the same for all shares."""
    return np.random.default_rng(0).standard_normal((DRAWS, width))


def _moved(surprise: Values, together: Values, piloted: Sequence[int], errors: Values) -> Values:
    """Return by how much the belief of each cell moves where pilots surprise, by how neighbours are alike.

    What surprises of all pilots alike is a level, which tells of no cell.
    """
    seen = together[:, piloted] + np.diag(errors**2)
    counts = np.linalg.solve(seen, np.ones(len(piloted)))
    level = surprise @ counts / counts.sum()
    moved: Values = (surprise - level[:, np.newaxis]) @ np.linalg.solve(seen, together)
    return moved


def _covariance(cells: Sequence[PricedCell], weights: Values, likeness: Values) -> Values:
    """Return how the cells' scores vary together: over the worlds, their common level left out, and by themselves."""
    by_world = np.array([cell.score_by_world for cell in cells]).T
    apart = by_world - by_world.mean(axis=1, keepdims=True)
    apart -= weights @ apart
    gain = max(0.0, float((weights @ by_world).max()) - cells[0].variant.workload.pass_rates.mean)
    over_worlds: Values = (apart * weights[:, np.newaxis]).T @ apart
    return over_worlds + (OWN_SD * max(gain, 1e-6)) ** 2 * likeness


def own_likeness(configurations: Sequence[Configuration]) -> Values:
    """Return the correlations of what cells have of their own, by the distances that pilots are chosen by."""
    place = np.log2([configuration[:2] for configuration in configurations])
    square = ((place[:, np.newaxis] - place) ** 2).sum(axis=-1)
    axes = list(dict.fromkeys(configuration.axes for configuration in configurations))
    if len(axes) > 1:
        apart = np.array([[octaves(_alone(a), _alone(b)) ** 2 for b in axes] for a in axes])
        variant = [axes.index(configuration.axes) for configuration in configurations]
        square += apart[np.ix_(variant, variant)]
    likeness: Values = np.exp(-np.sqrt(square) / OWN_OCTAVES)
    return likeness


def _alone(axes: Axes) -> Configuration:
    return Configuration(1, 1, axes)
