import math
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.proposals.published import FRONTIERS
from runner.ports.simulation import Pathologies, SimulationChoice
from runner.simulation.surfaces import BASE_SCORES, NEVER, Shape, Surface

GROUPS = (8, 16, 32, 64, 128, 256, 512, 1024)
WORLDS = [Surface(SimulationChoice(seed=seed)) for seed in range(60)]
AT = [0.0, *(10**exponent for exponent in range(3, 9))]


def mean_scores(rollouts: float, B: int = 32) -> list[float]:
    return [statistics.mean(world.cell(n, B).score(rollouts) for world in WORLDS) for n in GROUPS]


def test_equal_choices_make_equal_surfaces_and_other_seeds_others() -> None:
    first, again, other = (Surface(SimulationChoice(seed=seed)) for seed in (4, 4, 5))
    assert first.cell(8, 32) == again.cell(8, 32)
    assert first.run(8, 32, 1) == again.run(8, 32, 1)
    assert first.cell(8, 32) != other.cell(8, 32)
    assert first.run(8, 32, 1) != first.run(8, 32, 2)


def test_the_best_group_grows_with_compute_as_published() -> None:
    best = [max(zip(mean_scores(rollouts), GROUPS, strict=True))[1] for rollouts in (2e5, 1.2e6, 1e7)]
    assert best[0] <= 16
    assert 16 <= best[1] <= 128
    assert best[2] >= 128


def test_what_the_group_is_worth_at_the_studys_end_is_what_was_published() -> None:
    scores = mean_scores(4e6)
    assert max(scores) - min(scores) == pytest.approx(0.092, abs=0.025)  # n = 8 … 1024 at B = 32, four million rollouts
    assert scores[0] == pytest.approx(0.596, abs=0.04)


def test_the_frontier_is_near_the_published_one() -> None:
    for rollouts in (3e5, 1e6, 4e6):
        best = statistics.mean(
            max(world.cell(n, B).score(rollouts) for n in GROUPS for B in (16, 32, 64, 128)) for world in WORLDS
        )
        assert best == pytest.approx(FRONTIERS["easy"].frontier_score(rollouts, BASE_SCORES["easy"]), abs=0.05)


@pytest.mark.parametrize("difficulty", ["easy", "hard"])
@pytest.mark.parametrize(("n", "B"), [(2, 1), (4, 1024), (16, 64), (4096, 4), (1024, 1024)])
def test_every_cell_rises_from_the_base_to_its_asymptote(difficulty: str, n: int, B: int) -> None:
    for seed in range(20):
        cell = Surface(SimulationChoice.model_validate({"seed": seed, "difficulty": difficulty})).cell(n, B)
        scores = [cell.score(rollouts) for rollouts in AT]
        assert scores == sorted(scores)
        assert scores[0] == cell.base
        assert cell.score(1e12) == pytest.approx(cell.asymptote, abs=1e-3)
        assert 0 < cell.base < cell.asymptote < 1


def test_rollouts_scale_stretches_the_axis() -> None:
    plain, slow = (Surface(SimulationChoice(seed=3, rollouts_scale=scale)).cell(16, 32) for scale in (1.0, 10.0))
    assert slow.score(1e7) == pytest.approx(plain.score(1e6))


def test_seeds_move_the_asymptote_by_the_published_margin_at_most() -> None:
    surface = Surface(SimulationChoice(seed=1, score_noise=0.02))
    cell = surface.cell(16, 32)
    moved = [surface.run(16, 32, seed).asymptote - cell.asymptote for seed in range(400)]
    assert max(map(abs, moved)) <= 0.02 + 1e-12
    assert statistics.pstdev(moved) == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize(
    ("name", "departs"),
    [
        ("late_start", lambda cell: cell.onset > 0 and cell.score(cell.onset) == cell.base),
        ("second_rise", lambda cell: cell.late_share > 0 and cell.late_middle > 2 * cell.middle),
        ("slide", lambda cell: cell.peak < NEVER and cell.score(cell.peak) > cell.score(5 * cell.peak) > cell.base),
    ],
)
def test_a_rate_is_the_share_of_cells_that_depart(name: str, departs: Callable[[Shape], bool]) -> None:
    for rate in (0.0, 0.25, 1.0):
        surface = Surface(SimulationChoice(seed=2, pathologies=Pathologies.model_validate({name: rate})))
        cells = [surface.cell(n, B) for n in range(2, 42) for B in range(1, 11)]
        share = sum(departs(cell) for cell in cells) / len(cells)
        assert share == pytest.approx(rate, abs=0.08 * (0 < rate < 1))


def test_a_crossing_cell_is_below_its_plain_self_early_and_above_it_late() -> None:
    plain = Surface(SimulationChoice(seed=2)).cell(16, 32)
    crossing = Surface(SimulationChoice(seed=2, pathologies=Pathologies(crossing=1.0))).cell(16, 32)
    assert crossing.score(plain.middle) < plain.score(plain.middle)
    assert crossing.score(1e9) > plain.score(1e9)


def test_collapsing_runs_fall_to_exactly_zero_and_stay_there() -> None:
    surface = Surface(SimulationChoice(seed=2, pathologies=Pathologies(collapse=0.3)))
    runs = [surface.run(16, 32, seed) for seed in range(300)]
    collapsing = [run for run in runs if run.collapse < NEVER]
    assert len(collapsing) / len(runs) == pytest.approx(0.3, abs=0.08)
    assert all(run.score(run.collapse) > 0 == run.score(1.03 * run.collapse) == run.score(1e12) for run in collapsing)


@given(
    st.floats(0, 1e10),
    st.builds(
        Shape,
        base=st.floats(0, 0.9),
        asymptote=st.floats(0, 1),
        middle=st.floats(1, 1e9),
        exponent=st.floats(0.2, 4),
        onset=st.floats(0, 1e7),
        late_share=st.floats(0, 0.9),
        late_middle=st.floats(1, 1e9),
        late_exponent=st.floats(1, 10),
        peak=st.floats(1e3, 1e9) | st.just(math.inf),
        lost=st.floats(0, 1),
        collapse=st.floats(1e3, 1e9) | st.just(math.inf),
    ),
)
def test_a_score_is_a_pass_rate(rollouts: float, shape: Shape) -> None:
    assert 0 <= shape.score(rollouts) <= 1
