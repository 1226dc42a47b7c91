from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.curves.curve import Curve
from planner.curves.fit import fit_curves
from planner.curves.preparation import BINS, prepare
from planner.curves.verdicts import State, Verdict, before_collapse, judge, states

X = np.arange(1, 201) / 200


def noisy(mean, seed: int = 0, sd: float = 0.01) -> Curve:
    scores = np.clip(mean + sd * np.random.default_rng(seed).normal(size=mean.size), 0, 1)
    return Curve.of("c", 100 * X[: mean.size], scores, bounded=True)


def rise(middle: float, exponent: float, gain: float = 0.6) -> np.ndarray:
    return 0.1 + gain / (1 + (middle / X) ** exponent)


SHAPES = {
    Verdict.RISING: 0.1 + 0.5 * (1 - np.exp(-X / 0.6)),
    Verdict.SATURATED: rise(0.03, 2.5),
    Verdict.FLAT: np.full(200, 0.3),
    Verdict.DECLINING: np.where(X < 0.4, rise(0.05, 2), 0.7 - 0.5 * (X - 0.4)),
    Verdict.COLLAPSED: np.where(X < 0.7, rise(0.05, 2), 0.0),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("verdict", SHAPES)
def test_constructed_curves_get_their_verdict(verdict, seed):
    curve = noisy(SHAPES[verdict], seed)
    assert {fit_curves([curve], level=level)[0].verdict for level in (0.1, 0.9)} == {verdict}


def state(*, now: float = 0.5, start: float = 0.1, peak: float | None = None, error: float = 0.005, bins: int = 20):
    return State(bins, start, error, max(start, now) if peak is None else peak, error, now, error)


# Chance of a notable rise, width of A's interval, what the scale spans.
SURE, OPEN = (0.9, 0.2, 1.0), (0.9, 0.9, 1.0)


@pytest.mark.parametrize(
    ("seen", "forecast", "verdict", "evidence"),
    [
        (state(), SURE, Verdict.RISING, "rose by 0.4"),
        (state(), OPEN, Verdict.NOT_IDENTIFIABLE, "interval of A is 0.9 of the scale wide"),
        (state(), (0.9, 0.9, 2.0), Verdict.RISING, "rose by 0.4"),
        (state(), (0.1, 0.2, 1.0), Verdict.SATURATED, "= 0.10"),
        (state(), (0.1, 0.9, 1.0), Verdict.SATURATED, "= 0.10"),
        (state(now=0.11), SURE, Verdict.FLAT, "within noise"),
        (state(now=0.3, error=0.1), SURE, Verdict.FLAT, "within noise"),
        (state(now=0.3, peak=0.5), SURE, Verdict.DECLINING, "0.2 of the scale below its peak"),
        (state(now=0.3, peak=0.5, error=0.1), OPEN, Verdict.FLAT, "within noise"),
        (replace(state(now=0.01, peak=0.5), collapsed=True), SURE, Verdict.COLLAPSED, "fell from 0.5 to 0.01"),
        (state(now=0.01, peak=0.5), SURE, Verdict.DECLINING, "below its peak"),
        (state(bins=4), SURE, Verdict.NOT_IDENTIFIABLE, "only 4 distinct points"),
    ],
)
def test_judgement_follows_the_facts_and_says_them(seen, forecast, verdict, evidence):
    found, sentence = judge(seen, *forecast)
    assert found is verdict
    assert evidence in sentence


SLOW_SLIDE = [0.2, 0.5, 0.6, *np.linspace(0.6, 0.2, 20)]


@pytest.mark.parametrize(
    ("level", "sd", "points"), [(0.5, 0.01, 200), (0.5, 0.05, 200), (0.3, 0.15, 10), (0.3, 0.15, 20), (0.3, 0.15, 200)]
)
def test_noise_alone_is_seldom_called_a_rise_a_decline_or_a_collapse(level, sd, points):
    found = states(prepare([noisy(np.full(points, level), seed, sd=sd) for seed in range(200)]))
    assert np.mean([each.risen() for each in found]) < (0.02 if points == 200 else 0.05)
    assert np.mean([each.fallen() for each in found]) < 0.05
    assert np.mean([each.collapsed for each in found]) < 0.02


@pytest.mark.parametrize(
    ("scores", "errors", "kept"),
    [
        ([0.2, 0.4, 0.5, 0.0, 0.0, 0.0], None, 3),
        ([0.2, 0.4, 0.5, 0.1, 0.02], None, 3),
        ([0.2, 0.4, 0.5, 0.1, 0.1], [0.02] * 5, 3),
        ([0.2, 0.4, 0.5, 0.1, 0.1], [0.1] * 5, 5),  # within noise
        ([0.2, 0.4, 0.5, 0.0], None, 4),  # one low score is no collapse
        ([0.2, 0.5, 0.0, 0.0, 0.5, 0.5], None, 6),  # it came back
        (SLOW_SLIDE, None, len(SLOW_SLIDE)),
        ([0.0, 0.02, 0.0, 0.0, 0.0], None, 5),  # never rose
        ([0.5], None, 1),
        ([0.0, 0.0, 0.0], None, 3),
    ],
)
def test_only_what_comes_before_a_collapse_is_kept(scores: list[float], errors: list[float] | None, kept: int) -> None:
    assert before_collapse(scores, errors) == kept


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_the_highest_score_is_never_cut_and_never_a_single_one(scores: list[float]) -> None:
    kept = before_collapse(scores)
    assert max(scores[:kept]) == max(scores)
    assert len(scores) - kept != 1
    assert all(score <= 0.3 * max(scores) for score in scores[kept:])


def test_a_reward_below_zero_that_falls_declines():
    fallen = np.where(X < 0.7, -0.5, -4.0) + 0.01 * np.random.default_rng(0).normal(size=200)
    assert fit_curves([Curve.of("c", 100 * X, fallen)])[0].verdict is Verdict.DECLINING


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
