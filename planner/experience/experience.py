"""What one sweep, or a table of recorded runs, says of how scores depend on the configuration, and whom it helps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from planner.curves.curve import Vector
from planner.pooling.features import CoefficientTerm, Features, NumericAxis

WIDER = 3.0  # how much wider slopes and products are believed to spread than by a model without sources


@dataclass(frozen=True, eq=False)
class Experience:
    """The coefficients of (logit A, log C_mid, log B) in the axes of a sweep, without the deviations of its cells.

    C_mid is in units of `target_gpu_hours`. `prior_mean` and `prior_sd` are what the coefficients were believed to be
    before its curves, so that what the curves alone say can be told apart from that.
    """

    name: str
    lines: tuple[NumericAxis, ...]
    terms: tuple[CoefficientTerm, ...]
    mean: Vector  # (t,)
    covariance: Vector  # (t, t)
    prior_mean: Vector
    prior_sd: Vector
    target_gpu_hours: float
    start: float  # the score before training
    configurations: int
    curves: int
    about: Mapping[str, str] = field(default_factory=dict)  # what it was: model, task, difficulty, recipe, …


def widened(smooth: Features) -> Vector:
    """Return the standard deviations of coefficients where sources are reckoned with: wide for slopes and products.

    Where curves determine the n × B product of log C_mid it is 0.6 to 2, while a model without sources believes 0.3: it
    needs that to extrapolate from a few pilots, and a source that is as narrow could not say so.
    """
    shapes = [
        len(set(term.of)) == len(term.of) > 0 and not any("=" in name for name in term.of) for term in smooth.terms
    ]
    return np.where(shapes, WIDER, 1.0) * smooth.sd[: len(smooth.terms)]


def is_transferred(term: CoefficientTerm) -> bool:
    """Whether a coefficient resembles that of a related sweep: slopes, curvatures and products of numeric axes do.

    Levels do not, and what a recipe or another name shifts was not measured on enough tables to be trusted.
    """
    return bool(term.of) and not any("=" in name for name in term.of)


# What remains of a source's weight for each property that both name and that differs. All of these are assumed [A]:
# they are but what counts before curves do, whose evidence overrules them (bench/results/experience.md).
WEIGHT_IF_DIFFERENT: Final = {"model": 0.5, "task": 0.8, "difficulty": 0.5, "recipe": 0.9, "trainer": 0.9}
# And for each factor of ten between the final runs, or the sizes of the models, beyond the first.
WEIGHT_PER_DECADE: Final = 0.6
SCALES: Final = ("model_parameters", "response_tokens")
LEAST_LIKENESS: Final = 0.02
LIKE_ENOUGH: Final = 0.15  # another model, task and difficulty have 0.2; what is less alike weighs hardly anything
MOST_SOURCES: Final = 3  # a decision was measured with so many
COMPARED_BY: Final = ("task", "model", "recipe")


def likeness(
    source: Experience, lines: Sequence[NumericAxis], target_gpu_hours: float, about: Mapping[str, str]
) -> float:
    """Return 1 for a source that differs in nothing that is known, and less the more it differs."""
    found: float = WEIGHT_PER_DECADE ** _decades(source.target_gpu_hours, target_gpu_hours)
    for name in SCALES:
        if name in source.about and name in about:
            found *= WEIGHT_PER_DECADE ** _decades(float(source.about[name]), float(about[name]))
    for name, remains in WEIGHT_IF_DIFFERENT.items():
        if name in source.about and name in about and source.about[name] != about[name]:
            found *= remains
    theirs = {line.name: line for line in source.lines}
    covered = [  # the share of each of our axes, as far as both have them, that the source's grid covers
        max(0.0, min(line.high, theirs[line.name].high) - max(line.low, theirs[line.name].low)) / (line.high - line.low)
        for line in lines
        if line.name in theirs and theirs[line.name].log == line.log
    ]
    return max(LEAST_LIKENESS, found * (sum(covered) / len(covered) if covered else 0.0))


def most_alike(
    known: Sequence[Experience], lines: Sequence[NumericAxis], target_gpu_hours: float, about: Mapping[str, str]
) -> tuple[Experience, ...]:
    """Return those that are alike enough, the most alike first; of equals the one that comes first among the known."""
    degrees = [likeness(each, lines, target_gpu_hours, about) for each in known]
    order = sorted(range(len(known)), key=lambda place: -degrees[place])
    return tuple(known[place] for place in order if degrees[place] >= LIKE_ENOUGH)[:MOST_SOURCES]


def compared(source: Experience, about: Mapping[str, str]) -> str:
    """Say what a source has in common with a sweep, and what it has otherwise, such as 'same task, qwen3-4b'."""
    named = [(name, source.about[name]) for name in COMPARED_BY if name in source.about]
    same = [name for name, value in named if about.get(name) == value]
    others = [value for name, value in named if about.get(name) != value]
    return ", ".join([*([f"same {' and '.join(same)}"] if same else []), *others])


def _decades(one: float, other: float) -> float:
    return max(0.0, abs(math.log10(one / other)) - 1.0)
