import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from planner.curves.curve import Vector
from planner.sweeping.competition import Competition
from planner.sweeping.grid import EDGES, MIDDLES, SummedRows, masses, quantile
from planner.sweeping.table import Table
from planner.trials import TrialState
from tests.planner.sweeping.views import trial, view


def normal_on_grid(means: list[float], sds: list[float]) -> Vector:
    upper = norm.cdf((EDGES[None, 1:] - np.array(means)[:, None]) / np.array(sds)[:, None])
    upper[:, -1] = 1.0
    return upper


def competition(upper: Vector, states: list[TrialState], cells: list[tuple[int, int]], seen: list[bool]) -> Competition:
    table, made = Table(), Competition()
    trials = [trial(i, state, cell=cell) for i, (state, cell) in enumerate(zip(states, cells, strict=True))]
    changed = table.follow(view(trials))
    made.follow(table, changed, upper, np.array(seen))
    return made


def own_cells(count: int) -> list[tuple[int, int]]:
    return [(2**i, 1) for i in range(count)]


def test_probabilities_of_the_best_agree_with_drawing() -> None:
    means, sds = [0.5, 0.55, 0.6, 0.62, 0.3], [0.1, 0.2, 0.05, 0.01, 0.02]
    made = competition(normal_on_grid(means, sds), [TrialState.PAUSED] * 5, own_cells(5), [True] * 5)
    draws = np.clip(np.random.default_rng(0).normal(means, sds, size=(400_000, 5)), 0, 1)
    drawn = np.bincount(draws.argmax(axis=1), minlength=5) / len(draws)
    outcome = made.outcome(5)
    assert outcome.among_seen == pytest.approx(drawn, abs=0.01)
    assert outcome.among_all == pytest.approx(outcome.among_seen)
    assert outcome.expected_maximum == pytest.approx(draws.max(axis=1).mean(), abs=0.003)


def test_equal_certainties_share_the_probability() -> None:
    at_the_top = np.zeros((4, 200))
    at_the_top[:, -1] = 1.0
    made = competition(at_the_top, [TrialState.PAUSED] * 4, own_cells(4), [True] * 4)
    assert made.outcome(4).among_seen == pytest.approx([0.25] * 4)


def test_those_without_a_curve_count_as_the_others_are_predicted_and_a_uniform_part() -> None:
    means, sds = [0.4, 0.5], [0.03, 0.03]
    upper = np.vstack([normal_on_grid(means, sds), np.zeros((2, 200))])
    states = [TrialState.PAUSED] * 2 + [TrialState.PLANNED] * 2
    outcome = competition(upper, states, own_cells(4), [True, True, False, False]).outcome(2)
    assert outcome.unseen == 2
    rng = np.random.default_rng(1)
    of_others = rng.normal(np.array(means)[rng.integers(2, size=(400_000, 2))], 0.03)
    unseen = np.where(rng.random((400_000, 2)) < 0.5, rng.random((400_000, 2)), of_others)
    draws = np.hstack([rng.normal(means, sds, size=(400_000, 2)), unseen])
    drawn = np.bincount(draws.argmax(axis=1), minlength=4) / len(draws)
    assert outcome.among_all[:2] == pytest.approx(drawn[:2], abs=0.01)
    assert outcome.of_each_unseen == pytest.approx(drawn[2:].mean(), abs=0.01)
    assert outcome.among_all.sum() + 2 * outcome.of_each_unseen == pytest.approx(1)


def test_seeds_of_a_cell_are_one_configuration_with_their_average() -> None:
    upper = normal_on_grid([0.4, 0.6, 0.55], [0.02, 0.02, 0.02])
    made = competition(upper, [TrialState.PAUSED] * 3, [(4, 8), (4, 8), (8, 8)], [True] * 3)
    assert made.means == pytest.approx([0.5, 0.55], abs=1e-3)
    assert made.outcome(3).among_seen[0] == pytest.approx(0.5 * norm.cdf(0.05 / (0.02 * 2**0.5)), abs=0.01)
    assert list(made.configurations) == [0, 0, 1]


@pytest.mark.parametrize("state", [TrialState.PRUNED, TrialState.FAILED])
def test_what_is_out_does_not_compete(state: TrialState) -> None:
    upper = normal_on_grid([0.9, 0.5, 0.5], [0.02] * 3)
    states = [state, TrialState.FINISHED, TrialState.RUNNING]
    outcome = competition(upper, states, own_cells(3), [True] * 3).outcome(3)
    assert outcome.among_seen == pytest.approx([0, 0.5, 0.5])
    assert outcome.unseen == 0


shares = st.lists(st.tuples(st.floats(0, 1), st.floats(0.001, 0.4)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(shares, st.integers(0, 3))
def test_probabilities_add_up_to_one(normals: list[tuple[float, float]], unseen: int) -> None:
    upper = np.vstack([normal_on_grid([m for m, _ in normals], [s for _, s in normals]), np.zeros((unseen, 200))])
    count = len(normals)
    states = [TrialState.PAUSED] * count + [TrialState.PLANNED] * unseen
    made = competition(upper, states, own_cells(count + unseen), [True] * count + [False] * unseen)
    outcome = made.outcome(count)
    assert outcome.among_seen.sum() == pytest.approx(1)
    assert outcome.among_all.sum() + unseen * outcome.of_each_unseen == pytest.approx(1)
    assert (outcome.among_all <= outcome.among_seen + 1e-9).all()


def test_sums_do_not_depend_on_the_order_in_which_rows_came() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 200))
    there, back = SummedRows(), SummedRows()
    for row in range(500):
        there.put(row, rows[row])
        there.total()
    for row in rng.permutation(500):
        back.put(int(row), 0.0)
        back.put(int(row), rows[row])
    assert np.array_equal(there.total(), back.total())
    assert there.total() == pytest.approx(rows.sum(axis=0))


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_quantiles_and_means_of_the_grid(level: float) -> None:
    upper = normal_on_grid([0.3, 0.62], [0.05, 0.1])
    assert quantile(upper, level) == pytest.approx(norm.ppf(level, [0.3, 0.62], [0.05, 0.1]), abs=0.002)
    assert masses(upper) @ MIDDLES == pytest.approx([0.3, 0.62], abs=1e-3)
