import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.synthetic import SHAPES, draw

SEEDS = range(30)


def drawn(shape, seed):
    return draw(shape, np.random.default_rng(seed))


def progress(synthetic, count=2001):
    """Return the truth at evenly spaced x from 0 to the end."""
    return synthetic.truth(np.linspace(0, synthetic.curve.x[-1], count))


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 2**32))
def test_every_curve_is_usable_and_its_truth_is_known_everywhere(shape, seed):
    synthetic = drawn(shape, seed)
    curve = synthetic.curve
    assert synthetic.shape == curve.name == shape
    assert 30 <= curve.x.size <= 1000
    assert not curve.notes, "nothing had to be cleaned"
    assert np.all(np.diff(curve.x) > 0)
    truth = progress(synthetic, 101)
    assert np.all(np.isfinite(truth))
    assert 0 <= synthetic.noise_sd < np.inf
    assert curve.bounded == (shape != "reward-scale")
    if curve.bounded:
        assert np.all((curve.y >= 0) & (curve.y <= 1))
        assert np.all((truth >= 0) & (truth <= 1))


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_the_same_seed_draws_the_same_curve_and_another_seed_another(shape):
    first, again, other = (drawn(shape, seed).curve for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, again.y)
    assert not (np.array_equal(first.x, other.x) and np.array_equal(first.y, other.y))


@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"outliers", "autocorrelated", "zero"}))
def test_scores_scatter_about_the_truth_by_the_stated_noise(shape):
    squares, count = 0.0, 0
    for seed in SEEDS:
        synthetic = drawn(shape, seed)
        if synthetic.noise_sd > 0:
            deviations = synthetic.curve.y - synthetic.truth(synthetic.curve.x)
            squares += float(np.sum((deviations / synthetic.noise_sd) ** 2))
            count += deviations.size
    assert squares / count == pytest.approx(1, abs=0.1)
