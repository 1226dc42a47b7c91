"""What pilots are worth: the expected value of the information in them, over the same draws that a plan ranks by.

In each draw the pilots' validations are made up, with their noise and the luck of their runs. What is then believed of
each cell's final score is its conditional expectation, a regression of the scores on what was seen, over draws (Strong,
Oakley and Brennan, Medical Decision Making 2014). The sweep chooses the cell of which the most is expected, and what
that is worth is read off the draw, which the regression has not seen: the draws are split, each part is chosen for by
the others. So free information is never harmful, and what tells nothing is worth nothing, but for the error that is
given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.prior.comparing import seed_share
from planner.prior.draws import FOLDS, Places, Weights
from planner.prior.studies import Values

PARTS: Final = 3  # of a pilot's validations, of which each has its mean
CROSSED: Final = 4  # directions of what is seen whose products count too: a mixture's expectation is no line
RIDGE: Final = 1e-3  # of a feature's variance


@dataclass(frozen=True, slots=True)
class ObservedPilot:
    """The validations of one pilot in every draw, without noise, and of what they are scores."""

    cell: int  # column of the final scores
    scores: Values  # (draws, validations)
    base: float  # score before the first update
    answers: int  # behind a validation


@dataclass(frozen=True, slots=True)
class Worth:
    """What pilots are expected to add to the final score, and the standard error of that."""

    gain: float
    error: float


def worth_of(finals: Values, weights: Weights, pilots: Sequence[ObservedPilot], folds: Places) -> Worth:
    """Return what choosing after the pilots adds to the first choice; `finals` are (draws, cells)."""
    if not pilots:
        return Worth(0.0, 0.0)
    rng = np.random.default_rng(1)
    seed_effects = rng.standard_normal((len(weights), len(pilots)), dtype=np.float32)
    seed_effects *= [seed_share(pilot.base) for pilot in pilots]
    finals = finals.copy()
    for number, pilot in enumerate(pilots):  # whose run goes on, with its luck
        finals[:, pilot.cell] += seed_effects[:, number] * (finals[:, pilot.cell] - pilot.base)
    first = int(np.argmax(weights @ finals))
    ahead = finals - finals[:, first : first + 1]
    design = _crossed(
        np.concatenate(
            [_measured_means(pilot, seed_effects[:, number], rng) for number, pilot in enumerate(pilots)], axis=1
        )
    )
    chosen = np.empty(len(weights), dtype=int)
    for fold in range(FOLDS):
        own = folds == fold
        chosen[own] = np.argmax(design[own] @ _fitted(design[~own], ahead[~own], weights[~own]), axis=1)
    gains = ahead[np.arange(len(weights)), chosen]
    gain = float(weights @ gains)
    return Worth(max(0.0, gain), float(np.sqrt(weights**2 @ (gains - gain) ** 2)))


def _measured_means(pilot: ObservedPilot, seed_effect: Values, rng: np.random.Generator) -> Values:
    """Return the means of a pilot's validations in parts of it, as they would be measured."""
    scores = pilot.base + (pilot.scores - pilot.base) * (1 + seed_effect[:, np.newaxis])
    noise = np.sqrt(np.clip(scores * (1 - scores), 0.25 / pilot.answers, None) / pilot.answers)
    scores = scores + noise * rng.standard_normal(scores.shape, dtype=np.float32)
    parts = np.array_split(scores, min(PARTS, scores.shape[1]), axis=1)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def _crossed(means: Values) -> Values:
    """Return what is seen, standardised, with a constant, and with the products of its first directions."""
    scaled = (means - means.mean(axis=0)) / np.maximum(means.std(axis=0), 1e-9)
    _, turned = np.linalg.eigh(scaled.T @ scaled)
    main = scaled @ turned[:, ::-1][:, :CROSSED]
    main /= np.maximum(main.std(axis=0), 1e-9)
    upper = np.triu_indices(main.shape[1])
    return np.concatenate([np.ones((len(means), 1)), scaled, (main[:, :, None] * main[:, None])[:, *upper]], axis=1)


def _fitted(design: Values, ahead: Values, weights: Weights) -> Values:
    """Return the coefficients of a ridge regression of how far each cell is ahead on what was seen."""
    weighted = design * (weights / weights.sum())[:, np.newaxis]
    penalty = RIDGE * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    found: Values = np.linalg.solve(design.T @ weighted + penalty, weighted.T @ ahead)
    return found
