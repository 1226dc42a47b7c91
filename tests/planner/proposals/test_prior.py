import math

import pytest

from budgets.allocation import Allocation
from budgets.workload import Workload
from planner.proposals.grid import applicable_prior, effective_updates, expected_score
from planner.proposals.published import FRONTIERS
from tests.planner.proposals.requests import request


@pytest.mark.parametrize(
    ("difficulty", "rollouts", "published"),
    # The table of n* at given compute that was computed from the fits' constants, all of n, B and M free.
    [
        ("easy", 1e5, 8),
        ("easy", 5e5, 10),
        ("easy", 1e6, 31),
        ("easy", 1.5e6, 133),
        ("easy", 2e6, 264),
        ("easy", 1e7, 430),
        ("hard", 1e6, 8),
        ("hard", 1.5e6, 100),
        ("hard", 1e7, 129),
    ],
)
def test_the_law_of_the_optimal_group_gives_the_published_values(
    difficulty: str, rollouts: float, published: float
) -> None:
    assert FRONTIERS[difficulty].optimal_group(rollouts) == pytest.approx(published, rel=0.06)


@pytest.mark.parametrize(
    ("rollouts", "reward"), [(0.28e6, 0.54), (0.85e6, 0.59), (1.27e6, 0.61), (2.7e6, 0.645), (4e6, 0.68)]
)
def test_the_frontier_passes_near_the_values_read_off_the_figure(rollouts: float, reward: float) -> None:
    assert FRONTIERS["easy"].frontier_score(rollouts, 0.45) == pytest.approx(reward, abs=0.02)


@pytest.mark.parametrize("difficulty", ["easy", "hard"])
def test_the_best_cell_moves_with_compute_as_published(difficulty: str) -> None:
    frontier = FRONTIERS[difficulty]
    groups = [frontier.optimal_group(10**x) for x in (5, 5.5, 6, 6.5, 7)]
    prompts = [frontier.optimal_prompts(10**x) for x in (4, 5, 5.5, 6, 6.5, 7)]
    assert groups == sorted(groups)
    assert prompts == sorted(prompts, reverse=True)


def test_extreme_compute_overflows_nothing() -> None:
    assert FRONTIERS["hard"].optimal_group(1e-30) == pytest.approx(2**3.04)
    assert FRONTIERS["hard"].optimal_group(1e30) == pytest.approx(2**7.01)


def test_the_interval_widens_away_from_the_study() -> None:
    studied = request(model="qwen2.5-7b").workload
    other = request(model="qwen3-14b").workload
    prior = applicable_prior(studied, "easy")
    near, far = Allocation(256, 32, 1000), Allocation(256, 32, 20_000)

    def width(workload: Workload, allocation: Allocation) -> float:
        score = expected_score(prior, workload, allocation)
        assert score is not None
        return score.high - score.low

    assert width(studied, near) < width(other, near)
    assert width(studied, near) < width(studied, far)


def test_effective_updates_count_what_can_be_learned() -> None:
    many = Allocation(16, 64, 1000)
    assert effective_updates(many, 0.0, 10**6) == 0
    assert 0 < effective_updates(many, 0.1, 10**6) < effective_updates(many, 1.0, 10**6) < 1000
    assert effective_updates(many, 1.0, 64) < effective_updates(many, 1.0, 10**6)
    assert math.isclose(effective_updates(many, 1.0, 64 * 40), effective_updates(many, 1.0, 10**6))
