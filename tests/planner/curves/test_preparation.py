import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.curves.curve import Curve
from planner.curves.preparation import BINS, prepare


@st.composite
def curves(draw):
    """A curve with up to a few points at 0, steady or ragged x, scores in [0, 1] or not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(1, BINS - 1) | st.integers(1, 200))
    x = np.cumsum(np.exp(rng.normal(size=size) * draw(st.sampled_from([0.0, 0.5, 3.0]))))
    x = np.concatenate([np.zeros(draw(st.integers(0, 3))), x])
    y = rng.random(x.size)
    return Curve.of("c", x, y if draw(st.booleans()) else 20 * y - 3)


def white_noise(points: int, sd: float, seed: int, *, bounded: bool) -> Curve:
    noise = np.random.default_rng(seed).normal(size=points) * sd
    return Curve.of("noise", np.arange(points), (0.5 if bounded else 40.0) + noise, bounded=bounded)


@given(curves())
def test_bins_hold_every_point_and_their_mean(curve):
    prepared = prepare([curve])
    assert prepared.weight.sum() == curve.x.size
    total = (prepared.weight * prepared.score).sum() * prepared.scale[0]
    assert total == pytest.approx(curve.y.sum(), rel=1e-9, abs=1e-9)
    of_points = np.log(curve.x[curve.x > 0] / curve.x[-1]).sum()
    assert (prepared.weight * prepared.log_x)[:, 1:].sum() == pytest.approx(of_points, rel=1e-9, abs=1e-9)


def test_a_run_that_was_scored_before_training_alone_has_its_bin():
    prepared = prepare([Curve.of("start", [0.0], [0.3], bounded=True), Curve.of("run", [0.0, 1.0], [0.3, 0.4])])
    assert prepared.weight.sum(axis=1).tolist() == [1, 2]
    assert prepared.score[:, 0].tolist() == [0.3, 0.3]
    assert prepared.last_log_x.tolist() == [0.0, 0.0]


def test_a_million_points_become_as_many_bins_as_thirty():
    rng = np.random.default_rng(0)
    x = np.arange(1_000_000)
    curve = Curve.of("long", x, 0.5 + 0.1 * rng.normal(size=x.size))
    prepared = prepare([curve])
    assert prepared.weight.shape == (1, BINS)
    assert prepared.weight.sum() == 1_000_000
    assert prepared.weight.max() < 200_000  # a bin that took most of the points would smear the curve
    assert prepared.noise_sd[0] == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("sd", [0.02, 0.1])
def test_white_noise_is_measured(sd, bounded):
    many = [white_noise(300, sd, seed, bounded=bounded) for seed in range(40)]
    prepared = prepare(many)
    estimates = prepared.noise_sd * prepared.scale
    assert np.mean(estimates) == pytest.approx(sd, rel=0.05)
    np.testing.assert_allclose(estimates, sd, rtol=0.2)


def test_a_few_jumps_are_not_taken_for_noise():
    scores = np.repeat([0.1, 0.6, 0.2, 0.9], 50) + 0.01 * np.random.default_rng(2).normal(size=200)
    prepared = prepare([Curve.of("jumps", np.arange(200), scores)])
    assert prepared.noise_sd[0] < 0.8 * np.sqrt(np.mean(np.diff(scores) ** 2) / 2)


def test_given_standard_errors_speak_for_few_points_and_many_points_correct_them():
    x, flat = np.arange(1, 6), np.full(5, 0.4)
    without, with_errors = Curve.of("a", x, flat), Curve.of("b", x, flat, standard_errors=np.full(5, 0.05))
    noise = prepare([without, with_errors]).noise_sd
    assert noise[0] < 0.02
    assert noise[1] == pytest.approx(0.05, rel=0.1)
    calm = 0.4 + 0.005 * np.random.default_rng(0).normal(size=2000)
    many = Curve.of("c", np.arange(1, 2001), calm, standard_errors=np.full(2000, 0.05))
    assert prepare([many]).noise_sd[0] < 0.01


def test_noise_of_pass_rates_is_least_near_zero_and_keeps_its_mean():
    scores = np.random.default_rng(0).binomial(50, np.repeat([0.02, 0.5], 100)) / 50
    prepared = prepare([Curve.of("pass", np.arange(1, 201), scores)])
    of_one = prepared.variance[0, 1:] * prepared.weight[0, 1:]
    assert of_one[np.argmin(prepared.score[0, 1:])] < 0.6 * of_one[np.argmax(prepared.score[0, 1:])]
    weighted = np.average(of_one, weights=prepared.weight[0, 1:])
    assert weighted == pytest.approx(prepared.noise_sd[0] ** 2, rel=1e-6)
