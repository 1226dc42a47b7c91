import numpy as np
import pytest

from planner.belief import draws as extrapolation
from planner.belief.draws import JointDraws, extrapolated
from planner.belief.pool import joint_of
from planner.view import Cell
from tests.planner.belief.sweeps import TARGET, Curve, configuration, smooth, sweep

CELLS: tuple[Cell, ...] = ((8, 4), (8, 64), (8, 1024))
STEPS = 6


def column(worlds: JointDraws, cell: Cell, x: float) -> np.ndarray:
    return worlds.at(x)[:, worlds.place[configuration(cell)]]


@pytest.mark.parametrize("exponent", [0.4, 0.7, 1.0])
def test_a_steep_rise_promises_no_perfect_score(exponent: float) -> None:
    """From 0.3 to 0.8 within two e-folds, and then as recorded runs go on: the demo's pilots were believed 0.99."""
    rise = Curve(0.3, 1.0, 0.03, 1.9)
    pilots = sweep(dict.fromkeys(CELLS, rise), dict.fromkeys(CELLS, STEPS))
    at_reach, reach = rise.at(STEPS / TARGET), STEPS / TARGET
    end = 1 - (1 - at_reach) * reach**exponent
    for cell in CELLS:
        low, high = np.quantile(column(joint_of(pilots), cell, 1.0), (0.05, 0.95))
        assert low <= end <= high
        assert high - low < 0.2


def test_large_batches_are_expected_to_gain_on_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = sweep(dict.fromkeys(CELLS, Curve(0.2, 0.8, 0.2, 1.5)), dict.fromkeys(CELLS, STEPS))
    ends = STEPS / TARGET, 0.2, 1.0
    with_term = np.stack([joint_of(alike).at(x).mean(axis=0) for x in ends])
    monkeypatch.setattr(extrapolation, "PACE_OF_AN_OCTAVE", 0.0)
    small, usual, large = (with_term - np.stack([joint_of(alike).at(x).mean(axis=0) for x in ends])).T
    assert small[0] == usual[0] == large[0] == 0
    assert small[2] < small[1] < 0 < large[1] < large[2]
    assert usual == pytest.approx([0.0, 0.0, 0.0])


def test_a_configuration_without_a_run_and_a_lone_run_have_no_term() -> None:
    worlds = joint_of(sweep({cell: smooth(1)[16, 64] for cell in CELLS}, {CELLS[0]: STEPS}))
    assert worlds.reach.tolist() == [STEPS / TARGET, np.inf, np.inf]
    assert extrapolation.paces(worlds.configurations[:1], worlds.runs.of) == pytest.approx(1.0)


@pytest.mark.parametrize("last", [0.0, 0.69, 0.71, 0.999, 1.0, 1.02])
def test_extrapolated_scores_stay_below_one_and_begin_where_curves_were(last: float) -> None:
    at_reach, pace = np.full((1, 3), last), np.array([0.5, 1.0, 2.0])
    exponents, here, far = np.full((1, 3), 0.7), np.zeros(3), np.full(3, 3.0)
    assert extrapolated(at_reach, at_reach, here, exponents, pace) == pytest.approx(at_reach, abs=0.03)
    later = extrapolated(np.maximum(at_reach, 0.9999), at_reach, far, exponents, pace)
    assert (later < 1).all()
    assert (np.diff(later) >= 0).all()
