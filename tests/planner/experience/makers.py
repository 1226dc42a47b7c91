"""Sources whose surface is known."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.experience.experience import Experience
from planner.experience.extracting import Curves, experience_of
from planner.view import Configuration
from tests.planner.pooling.sweeps import TARGET, seen, smooth


def curves(seed: int, *, noise: float = 0.01, steps: int = 100) -> Curves:
    """Return a complete table of a smooth truth."""
    return [
        (Configuration(*cell), seen(curve, steps, noise=noise, seed=1000 * seed + number))
        for number, (cell, curve) in enumerate(smooth(seed).items())
    ]


def learnt(seed: int, name: str = "earlier", **about: str) -> Experience:
    return experience_of(name, curves(seed), TARGET, about)


def signs(source: Experience, mirrored: Sequence[str]) -> np.ndarray:
    """Return −1 for coefficients that change their sign when these axes are turned round."""
    return np.array([(-1.0) ** sum(name in mirrored for name in term.of) for term in source.terms])


def against(source: Experience) -> Experience:
    """Return what a source would say if both axes were turned round."""
    sign = signs(source, ("n", "B"))
    return replace(
        source, name="mirrored", mean=sign * source.mean, covariance=source.covariance * np.outer(sign, sign)
    )
