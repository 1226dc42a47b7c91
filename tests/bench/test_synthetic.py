from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import curve_fit

from bench.synthetic import PER_HUNDRED, SHAPES, draw, suite
from bench.synthetic.courses import SCALERL
from bench.synthetic.noise import Noise
from budgets.errors import InputError, UnknownNameError

PURE_SHAPES = sorted(SHAPES.keys() - {"reward-scale"})
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


def test_axes_have_steps_and_gpu_hours_with_and_without_a_point_before_training():
    curves = [drawn("sigmoid", seed).curve for seed in SEEDS]
    kinds = {(bool(curve.x[0] == 0), bool(np.all(curve.x == np.round(curve.x)))) for curve in curves}
    assert kinds == {(False, False), (False, True), (True, False), (True, True)}
    sizes = [curve.x.size for curve in curves]
    assert min(sizes) < 100
    assert max(sizes) > 400


@pytest.mark.parametrize("seed", SEEDS)
def test_sigmoids_are_near_published_ones_and_reach_two_to_six_midpoints(seed):
    u = np.linspace(0, 1, 201)[1:]
    truth = progress(drawn("sigmoid", seed), 201)
    start = truth[0]

    def form(u, asymptote, exponent, middle):
        return start + (asymptote - start) / (1 + (middle / u) ** exponent)

    (asymptote, exponent, middle), _ = curve_fit(
        form, u, truth[1:], p0=(0.6, 2, 0.3), bounds=((0, 0.5, 0.05), (1, 5, 1))
    )
    np.testing.assert_allclose(form(u, asymptote, exponent, middle), truth[1:], atol=1e-5)
    _, exponents, asymptotes = zip(*SCALERL, strict=True)
    assert 0.1 <= start <= 0.5
    assert min(asymptotes) - 0.12 < asymptote < max(asymptotes) + 0.12
    assert min(exponents) / 1.8 < exponent < max(exponents) * 1.8
    assert middle + 1e-3 >= 1 / 6
    assert middle - 1e-3 <= 1 / 2


@pytest.mark.parametrize("shape", ["saturating", "power-law", "log-linear", "shoulder", "second-rise", "late-start"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rising_shapes_rise(shape, seed):
    truth = progress(drawn(shape, seed))
    assert np.all(np.diff(truth) >= -1e-12)
    assert truth[-1] > truth[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_saturating_curves_have_most_of_their_gain_in_the_first_half_and_slow_ones_go_on_rising(seed):
    fast, slow = progress(drawn("saturating", seed)), progress(drawn("log-linear", seed))
    assert fast[1000] - fast[0] > 0.8 * (fast[-1] - fast[0])
    assert slow[-1] > slow[1000] + 0.001


@pytest.mark.parametrize(("shape", "latest", "earliest"), [("shoulder", 0.5, 0.1), ("second-rise", 1.0, 0.3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_stage_curves_speed_up_again(shape, latest, earliest, seed):
    speed = np.diff(progress(drawn(shape, seed)))
    again = np.flatnonzero((np.diff(speed) > 0) & (np.arange(speed.size - 1) / speed.size > 0.08))
    assert again.size, "the second stage has a moment of growing speed"
    assert earliest < again[-1] / speed.size <= latest


@pytest.mark.parametrize("seed", SEEDS)
def test_slides_end_below_their_peak_and_above_zero(seed):
    truth = progress(drawn("slide", seed))
    peak = truth.max()
    lost = (peak - truth[-1]) / (peak - truth[0])
    assert 0.1 < truth.argmax() / truth.size < 0.65
    assert 0.04 < lost < 0.51


def test_collapses_end_at_exactly_zero_at_any_moment_of_the_run():
    moments = []
    for seed in range(60):
        synthetic = drawn("collapse", seed)
        alive = progress(synthetic) > 0
        moments.append(alive.mean())
        after = synthetic.curve.x > moments[-1] * synthetic.curve.x[-1] * 1.001
        assert np.all(synthetic.curve.y[after] == 0)
        assert not alive[-1]
        assert np.all(np.diff(alive.astype(int)) <= 0), "it dies once"
    assert min(moments) < 0.25
    assert max(moments) > 0.75


@pytest.mark.parametrize("seed", SEEDS)
def test_ceilings_are_hard(seed):
    truth = progress(drawn("ceiling", seed))
    at_top = truth == truth[-1]
    first = int(at_top.argmax())
    assert np.all(at_top[first:])
    assert 0.05 < first / truth.size < 0.92
    assert truth[first] - truth[first - 1] > 1e-6, "it is still rising when it meets the ceiling"


@pytest.mark.parametrize("seed", SEEDS)
def test_dead_runs_stay_where_they_are(seed):
    dead, zero = drawn("dead", seed), drawn("zero", seed)
    assert np.ptp(progress(dead)) == 0 < progress(dead)[0]
    assert not progress(zero).any()
    assert not zero.curve.y.any()


@pytest.mark.parametrize("seed", SEEDS)
def test_late_starts_give_no_signal_before_a_tenth_of_the_run_and_have_risen_by_the_end(seed):
    truth = progress(drawn("late-start", seed))
    assert np.ptp(truth[:200]) == 0
    assert truth[800] - truth[0] < 0.999 * (truth[-1] - truth[0])
    assert truth[-1] - truth[0] > 0.15


def test_small_batches_are_noisier_than_evaluations():
    heavy, evaluated = (
        [drawn(shape, seed).noise_sd for seed in SEEDS] for shape in ("heavy-noise", "evaluation-noise")
    )
    assert min(heavy) > max(evaluated)
    assert 0.005 < min(evaluated) < max(evaluated) < 0.5 / np.sqrt(300)


def test_autocorrelated_deviations_follow_each_other_and_evaluation_noise_does_not():
    def mean_correlation(shape):
        found = []
        for seed in SEEDS:
            synthetic = drawn(shape, seed)
            if synthetic.curve.x.size > 100:
                deviations = synthetic.curve.y - synthetic.truth(synthetic.curve.x)
                found.append(np.corrcoef(deviations[1:], deviations[:-1])[0, 1])
        return np.mean(found)

    assert mean_correlation("autocorrelated") > 0.25
    assert abs(mean_correlation("evaluation-noise")) < 0.05


def test_outliers_are_few_and_far_away():
    far = []
    for seed in SEEDS:
        synthetic = drawn("outliers", seed)
        deviations = synthetic.curve.y - synthetic.truth(synthetic.curve.x)
        far.extend(np.abs(deviations) > 5 * synthetic.noise_sd)
    assert 0.005 < np.mean(far) < 0.04


def test_reward_scales_leave_the_unit_interval():
    curves = [drawn("reward-scale", seed).curve for seed in SEEDS]
    assert min(curve.y.min() for curve in curves) < -0.5
    assert max(curve.y.max() for curve in curves) > 3


def test_noise_has_the_stated_spread_and_memory():
    noise = Noise(samples=400, wander_sd=0.03, wander_correlation=0.8)
    mean = np.full(40_000, 0.4)
    deviations = noise.scores(mean, np.random.default_rng(0)) - 0.4
    assert deviations.std() == pytest.approx(noise.sd(mean), rel=0.05)
    expected = 0.8 * 0.03**2 / noise.sd(mean) ** 2
    assert np.corrcoef(deviations[1:], deviations[:-1])[0, 1] == pytest.approx(expected, abs=0.03)


def test_the_mixture_covers_every_shape_and_adds_up_to_a_hundred():
    assert PER_HUNDRED.keys() == SHAPES.keys()
    assert sum(PER_HUNDRED.values()) == 100


@pytest.mark.parametrize("total", [17, 100, 200, 333])
def test_a_suite_has_the_curves_asked_for_in_the_proportions_of_the_mixture(total):
    curves = suite(np.random.default_rng(0), total / len(SHAPES))
    counts = Counter(synthetic.shape for synthetic in curves)
    assert counts.total() == total
    assert all(abs(counts[shape] - total * weight / 100) < 1 for shape, weight in PER_HUNDRED.items())
    assert len({synthetic.curve.name for synthetic in curves}) == total


def test_a_suite_depends_on_its_seed_alone():
    first, again = (suite(np.random.default_rng(5), 1) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.curve.y, other.curve.y)


def test_an_unknown_shape_is_named_with_the_nearest_one():
    with pytest.raises(UnknownNameError, match=r"unknown curve shape 'sigmiod'.*'sigmoid'"):
        drawn("sigmiod", 0)


@pytest.mark.parametrize("per_shape", [0, -1, float("nan")])
def test_a_suite_of_nothing_is_refused(per_shape):
    with pytest.raises(InputError, match="curves per shape"):
        suite(np.random.default_rng(0), per_shape)
