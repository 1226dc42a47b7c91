"""Laws as published, and curves drawn from them."""

import numpy as np

from planner.curves.curve import Curve
from planner.curves.families.model_size import ModelSizeFit
from planner.curves.families.power import PowerLawFit
from planner.curves.families.sigmoid import SigmoidFit
from planner.proposals.published import OptimalGroupLaw

SIZES = (0.5e9, 1.5e9, 3e9, 7e9, 14e9, 32e9, 72e9)
PUBLISHED_SIZES = ModelSizeFit(
    K_max=0.13304,
    N_0=13.78e9,
    intercepts=dict(zip(SIZES, (0.0640, 0.2074, 0.3741, 0.7045, 1.0848, 1.5359, 1.8957), strict=True)),
    rss=0.0,
)
EASY = OptimalGroupLaw(rise=5.67, steepness=8.84, midpoint=6.08, floor=3.08)


def curve_of(fit: SigmoidFit | PowerLawFit, x: np.ndarray, noise: float = 0.0, seed: int = 0) -> Curve:
    y = fit.predict(x) + np.random.default_rng(seed).normal(0, noise, x.size)
    return Curve.of("drawn", x, y)
