"""How often 90 % intervals hold the truth: of what comes after the points of a curve, and of a sigmoid's parameters."""

from collections.abc import Sequence

import numpy as np
import pytest

from bench import synthetic
from planner.curves.fit import fit_curves
from tests.planner.curves.family_samples import Sigmoid, curve_of


def coverage_at_the_end(drawn: Sequence[synthetic.SyntheticCurve], fraction: float) -> float:
    """How often the 90 % interval from the first part of a curve holds its noise-free score at the end."""
    ends = [each.curve.end[0] for each in drawn]
    truth = np.array([float(each.truth(np.array([end]))[0]) for each, end in zip(drawn, ends, strict=True)])
    fits = fit_curves([each.curve.first_fraction(fraction) for each in drawn], [[end] for end in ends])
    low, high = (np.array([getattr(fit.predictions[0], name) for fit in fits]) for name in ("low", "high"))
    return float(np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9)))


@pytest.mark.parametrize("fraction", [0.25, 0.5])
def test_intervals_cover_the_truth_of_the_fields_mixture_of_shapes(fraction):
    drawn = synthetic.suite(np.random.default_rng(23), 24)
    assert 0.82 <= coverage_at_the_end(drawn, fraction) <= 0.99


@pytest.mark.parametrize("fraction", [0.25, 0.5])
@pytest.mark.parametrize("shape", ["sigmoid", "saturating", "power-law"])
def test_intervals_cover_the_truth_of_ordinary_pass_rates(shape, fraction):
    # No upper limit: an interval that has room for slides and second rises holds nearly every clean curve.
    rng = np.random.default_rng(23)
    assert coverage_at_the_end([synthetic.draw(shape, rng) for _ in range(250)], fraction) >= 0.82


def test_intervals_of_parameters_hold_those_of_drawn_sigmoids():
    rng = np.random.default_rng(5)
    laws = [Sigmoid(*rng.uniform((0.1, 0.5, 1.0, 30.0), (0.4, 0.95, 3.0, 120.0))) for _ in range(200)]
    fits = fit_curves([curve_of(law, np.arange(1.0, 201), 0.02, seed) for seed, law in enumerate(laws)])
    for name in Sigmoid._fields:
        found = [(fit.parameters[name], getattr(law, name)) for fit, law in zip(fits, laws, strict=True)]
        assert np.mean([each.low <= truth <= each.high for each, truth in found]) >= 0.82, name
