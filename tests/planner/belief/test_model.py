from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from planner.axes import MODEL
from planner.belief import model
from planner.belief.draws import JointDraws
from planner.belief.features import features
from planner.belief.model import SCATTER, SCATTERS, JointFit, JointModel
from planner.belief.points import binned, stacked
from planner.belief.pool import joint_of
from planner.view import Cell, ScorePoint, View
from tests.planner.belief.sweeps import TARGET, Curve, along, configuration, seen, smooth, sweep, unrelated
from tests.planner.policy.views import CELLS

CORNERS = ((4, 16), (64, 16), (4, 256), (64, 256))
EVERY_OTHER = CELLS[::2]


def fitted(view: View) -> tuple[JointFit, JointModel]:
    trials = list(view.trials.values())
    curves = [each for each in trials if each.scores]
    configurations = [each.configuration for each in trials]
    of = np.array([configurations.index(each.configuration) for each in curves], dtype=np.intp)
    model = JointModel(features(configurations), stacked([binned(each.scores) for each in curves], TARGET), of)
    return model.fit(), model


def scatter_weights(view: View) -> dict[float, float]:
    """Return how much of the evidence is for each scatter of configurations about the smooth surface."""
    fit, model = fitted(view)
    scales = model.scatter[:, 0] / SCATTER[0]
    return {scale: float(fit.weights[np.isclose(scales, scale)].sum()) for scale in SCATTERS}


def interval(worlds: JointDraws, cell: Cell) -> tuple[float, float]:
    low, high = np.quantile(worlds.at(1.0)[:, worlds.configurations.index(configuration(cell))], (0.05, 0.95))
    return float(low), float(high)


def width(worlds: JointDraws, cell: Cell) -> float:
    low, high = interval(worlds, cell)
    return high - low


def test_smooth_truths_lie_within_their_intervals() -> None:
    """Of sigmoids and of curves that come in more slowly, half of each: a tail between the two is what is assumed."""
    with_curve: list[bool] = []
    without: list[bool] = []
    ranks: list[float] = []
    for seed in range(20):
        truth = {cell: replace(curve, tail=(0.5, 1.0)[seed % 2]) for cell, curve in smooth(seed).items()}
        steps = {cell: 10 + 4 * (place % 5) for place, cell in enumerate(EVERY_OTHER)}
        worlds = joint_of(sweep(truth, steps, seed=seed), 400)
        scores = worlds.at(1.0)
        for place, each in enumerate(worlds.configurations):
            rank = float((scores[:, place] < truth[each[:2]].at(1.0)).mean())
            ranks.append(rank)
            (with_curve if each[:2] in steps else without).append(0.05 <= rank <= 0.95)
    assert 0.75 <= np.mean(with_curve) <= 0.99
    assert 0.75 <= np.mean(without) <= 0.99
    below, above = np.mean(np.array(ranks) < 0.5), np.mean(np.array(ranks) > 0.5)
    assert min(below, above) > 0.3


def test_curves_without_relation_are_scattered_widely_and_smooth_ones_are_not() -> None:
    steps = dict.fromkeys(CELLS, 60)
    narrow, wide = min(SCATTERS), max(SCATTERS)
    assert scatter_weights(sweep(unrelated(0), steps))[wide] > 0.9
    assert scatter_weights(sweep(smooth(0), steps))[narrow] > 0.9


def test_a_curve_narrows_the_unseen_cells_about_it() -> None:
    ratios = []
    for seed in range(6):  # a curve that surprises may widen them, as it should
        truth = smooth(seed)
        before = joint_of(sweep(truth, dict.fromkeys(CORNERS, 60)), 400)
        after = joint_of(sweep(truth, dict.fromkeys((*CORNERS, (16, 64)), 60)), 400)
        ratios += [width(after, cell) / width(before, cell) for cell in ((16, 32), (8, 64), (32, 64))]
    assert np.median(ratios) < 0.85


def test_more_of_a_curve_narrows_its_own_prediction() -> None:
    truth = smooth(5)
    short, long = (joint_of(sweep(truth, {**dict.fromkeys(CORNERS, 20), (16, 64): to}), 400) for to in (6, 80))
    assert width(long, (16, 64)) < 0.5 * width(short, (16, 64))


def strange(scores: tuple[ScorePoint, ...]) -> tuple[ScorePoint, ...]:
    """Return a curve that rises and slides down far, too slowly to be cut as collapsed."""
    half = len(scores) // 2
    fall = np.linspace(0.0, 0.35, len(scores) - half)
    return (
        *scores[:half],
        *(each._replace(score=max(0.0, each.score - down)) for each, down in zip(scores[half:], fall, strict=True)),
    )


def with_a_strange_one(view: View, cell: Cell) -> View:
    trials = {
        number: replace(each, scores=strange(each.scores)) if each.cell == cell else each
        for number, each in view.trials.items()
    }
    return replace(view, trials=trials)


@pytest.mark.parametrize("seed", [0, 4])
def test_a_strange_curve_does_not_move_the_others_much(seed: int) -> None:
    truth = smooth(seed)
    cells = [cell for cell in CELLS[::2] if cell != (16, 64)]
    view = sweep(truth, dict.fromkeys((*cells, (16, 64)), 50))
    plain, bent = joint_of(view, 400), joint_of(with_a_strange_one(view, (16, 64)), 400)
    moved = np.abs(bent.at(1.0).mean(axis=0) - plain.at(1.0).mean(axis=0))
    others = [place for place, each in enumerate(plain.configurations) if each[:2] in cells]
    assert moved[plain.configurations.index(configuration((16, 64)))] > 0.15
    assert moved[others].max() < 0.04


def test_the_order_of_trials_does_not_matter_beyond_the_draws() -> None:
    view = sweep(smooth(8), dict.fromkeys(EVERY_OTHER, 30))
    back = replace(view, trials=dict(reversed(list(view.trials.items()))))
    forth_worlds, back_worlds = joint_of(view, 1000), joint_of(back, 1000)
    forth, turned = forth_worlds.at(1.0), back_worlds.at(1.0)
    places = [back_worlds.configurations.index(each) for each in forth_worlds.configurations]
    error = np.sqrt((forth.var(axis=0) + turned[:, places].var(axis=0)) / 1000)
    assert (np.abs(forth.mean(axis=0) - turned[:, places].mean(axis=0)) < 5 * error + 1e-3).all()


def test_a_late_start_is_not_taken_for_a_low_top() -> None:
    late = Curve(0.2, 0.9, 0.5, 2.0)
    truth = {cell: late if cell == (16, 64) else curve for cell, curve in smooth(9).items()}
    low, high = interval(joint_of(sweep(truth, {**dict.fromkeys(CORNERS, 60), (16, 64): 20}), 400), (16, 64))
    assert low < late.at(1.0) + 0.02
    assert high > late.at(0.2) + 0.15


def test_without_a_score_at_the_start_the_start_is_not_taken_to_be_zero() -> None:
    curve = Curve(0.5, 0.8, 0.15, 1.5)
    view = sweep({(16, 64): curve, (8, 64): curve}, {(16, 64): 40, (8, 64): 40})
    without = {number: replace(each, scores=each.scores[1:]) for number, each in view.trials.items()}
    model = fitted(replace(view, trials=without))[1]
    assert model.base_mean[0] == pytest.approx(seen(curve, 2)[1].score, abs=0.1)


def two_models(small: float, large: float) -> tuple[View, list[float]]:
    """Return a sweep of two base models over four cells, with curves up to a third, and what each run ends at."""
    shapes = {"small": Curve(small, small + 0.35 * (1 - small), 0.15, 1.5), "large": Curve(large, 0.8, 0.1, 1.5)}
    trials, ends = [], []
    for name, curve in shapes.items():
        for cell in CORNERS:
            trials.append(replace(along(len(trials) + 1, cell, curve, 34), axes=((MODEL, name),)))
            ends.append(curve.at(1.0))
    return replace(sweep({}, {}), trials={each.trial: each for each in trials}), ends


@pytest.mark.parametrize(("small", "large"), [(0.2, 0.5), (0.1, 0.6)])
def test_base_models_begin_with_scores_of_their_own(small: float, large: float) -> None:
    view, ends = two_models(small, large)
    worlds = joint_of(view, 400)
    assert worlds.start.mean(axis=0) == pytest.approx([small] * 4 + [large] * 4, abs=0.02)
    assert (worlds.outlier_scale == 1).all()  # nobody's curve is strange
    low, high = np.quantile(worlds.at(1.0), (0.05, 0.95), axis=0)
    assert ((low <= ends) & (ends <= high)).all()


def test_a_base_model_without_a_curve_begins_where_the_others_do() -> None:
    view, _ = two_models(0.2, 0.5)
    unseen = {
        number: replace(each, scores=()) if dict(each.axes)[MODEL] == "large" else each
        for number, each in view.trials.items()
    }
    start = joint_of(replace(view, trials=unseen), 1000).start
    assert start.mean(axis=0) == pytest.approx([0.2] * 8, abs=0.02)
    assert start[:, 4:].std() > 5 * start[:, :4].std()


@pytest.mark.parametrize("truth", [smooth, unrelated], ids=["smooth", "unrelated"])
@pytest.mark.parametrize("steps", [4, 20, 100])
@pytest.mark.parametrize("noise", [1e-6, 0.01, 0.1])
def test_fits_come_to_their_modes(truth: Callable[[int], dict[Cell, Curve]], steps: int, noise: float) -> None:
    view = sweep(truth(2), dict.fromkeys(EVERY_OTHER, steps), noise=noise)
    assert fitted(view)[0].unconverged == 0


def test_a_fit_that_was_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "ROUNDS", 1)
    monkeypatch.setattr(model, "FIRST_ROUNDS", 1)
    fit, _ = fitted(sweep(unrelated(2), dict.fromkeys(EVERY_OTHER, 40), noise=1e-4))
    assert 0 < fit.unconverged <= 1
