"""What one sweep, or one table of recorded runs, says of how scores depend on the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from planner.curves.curve import Vector
from planner.pooling.features import Features, Line, Term

WIDER = 3.0  # how much wider slopes and products are believed to spread than by a model without sources


@dataclass(frozen=True, eq=False)
class Experience:
    """The coefficients of (logit A, log C_mid, log B) in the axes of a sweep, without the deviations of its cells.

    C_mid is in units of `target_gpu_hours`. `prior_mean` and `prior_sd` are what the coefficients were believed to be
    before its curves, so that what the curves alone say can be told apart from that.
    """

    name: str
    lines: tuple[Line, ...]
    terms: tuple[Term, ...]
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


def is_transferred(term: Term) -> bool:
    """Whether a coefficient resembles that of a related sweep: slopes, curvatures and products of numeric axes do.

    Levels do not, and what a recipe or another name shifts was not measured on enough tables to be trusted.
    """
    return bool(term.of) and not any("=" in name for name in term.of)
