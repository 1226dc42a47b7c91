"""The simulated world: its random numbers, the curves of its cells, and what a trial in it does step by step."""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from runner.ports.executor import Work
from runner.ports.trial import Costs, Failures, Machine, Pathologies, SimulationChoice
from runner.simulation import surfaces
from runner.simulation.surfaces import BASE_SCORES, FRONTIERS, NEVER, Shape, Surface
from runner.simulation.world import PERIOD, Course, course_of
from tests.runner.simulation.worlds import trial
from tests.simulated.segment import seconds_until_lost, step_at

CHOICE = SimulationChoice(seed=3, pathologies=Pathologies(collapse=0.2, late_start=0.2))

# Random numbers


@pytest.mark.parametrize(("share", "draws"), [(0.01, 300), (0.97, 300), (0.4, 2000), (0.0, 40), (1.0, 40)])
def test_binomial_draws_have_the_binomials_moments(share: float, draws: int) -> None:
    values = [surfaces.binomial(share, draws, 5, i) for i in range(4000)]
    law = binom(draws, share)
    assert statistics.mean(values) == pytest.approx(law.mean(), abs=4 * law.std() / 4000**0.5)
    assert statistics.pstdev(values) == pytest.approx(law.std(), rel=0.06)
    assert all(0 <= value <= draws for value in values)


# Curves


def test_the_frontier_is_near_the_published_one_and_the_best_group_grows_with_compute() -> None:
    worlds, groups = [Surface(SimulationChoice(seed=seed)) for seed in range(40)], (8, 32, 128, 512)
    best = []
    for rollouts in (2e5, 1e6, 1e7):
        means = {n: statistics.mean(world.cell(n, 32).score(rollouts) for world in worlds) for n in groups}
        best.append(max(groups, key=means.__getitem__))
        reached = statistics.mean(
            max(world.cell(n, B).score(rollouts) for n in groups for B in (16, 32, 64, 128)) for world in worlds
        )
        assert reached == pytest.approx(FRONTIERS["easy"].frontier_score(rollouts, BASE_SCORES["easy"]), abs=0.06)
    assert best == sorted(best)
    assert best[0] < best[-1]


@pytest.mark.parametrize("difficulty", ["easy", "hard"])
@pytest.mark.parametrize(("n", "B"), [(2, 1), (4, 1024), (16, 64), (1024, 1024)])
def test_every_cell_rises_from_the_base_to_its_asymptote(difficulty: str, n: int, B: int) -> None:
    for seed in range(10):
        cell = Surface(SimulationChoice.model_validate({"seed": seed, "difficulty": difficulty})).cell(n, B)
        scores = [cell.score(rollouts) for rollouts in [0.0, *(10**exponent for exponent in range(3, 9))]]
        assert scores == sorted(scores)
        assert scores[0] == cell.base
        assert cell.score(1e12) == pytest.approx(cell.asymptote, abs=1e-3)
        assert 0 < cell.base < cell.asymptote < 1


def test_equal_choices_make_equal_surfaces_whose_seeds_move_the_asymptote_by_the_published_margin_at_most() -> None:
    surface, again = (Surface(SimulationChoice(seed=1, score_noise=0.02)) for _ in range(2))
    cell = surface.cell(16, 32)
    assert cell == again.cell(16, 32) != Surface(SimulationChoice(seed=2)).cell(16, 32)
    moved = [surface.run(16, 32, seed).asymptote - cell.asymptote for seed in range(400)]
    assert moved == [again.run(16, 32, seed).asymptote - cell.asymptote for seed in range(400)]
    assert max(map(abs, moved)) <= 0.02 + 1e-12
    assert statistics.pstdev(moved) == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize(
    ("name", "departs"),
    [
        ("late_start", lambda cell: cell.onset > 0 and cell.score(cell.onset) == cell.base),
        ("second_rise", lambda cell: cell.late_share > 0 and cell.late_middle > 2 * cell.middle),
        ("slide", lambda cell: cell.peak < NEVER and cell.score(cell.peak) > cell.score(5 * cell.peak) > cell.base),
        ("collapse", lambda run: run.collapse < NEVER and run.score(run.collapse) > 0 == run.score(1e12)),
    ],
)
def test_a_rate_is_the_share_of_cells_that_depart(name: str, departs: Callable[[Shape], bool]) -> None:
    for rate in (0.0, 0.25, 1.0):
        surface = Surface(SimulationChoice(seed=2, pathologies=Pathologies.model_validate({name: rate})))
        shapes = [surface.run(n, B, 0) for n in range(2, 42) for B in range(1, 11)]
        share = sum(departs(shape) for shape in shapes) / len(shapes)
        assert share == pytest.approx(rate, abs=0.08 * (0 < rate < 1))


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


# Trials


@settings(max_examples=40)
@given(st.integers(0, 2000), st.integers(0, 10), st.sampled_from([2, 8, 64]), st.sampled_from([4, 32]))
def test_what_a_trial_does_at_a_step_follows_from_the_step_alone(step: int, seed: int, n: int, B: int) -> None:
    config = trial(CHOICE, n, B, seed=seed, every=640, machine=Machine(gpus=4))
    looked_through = course_of(config)
    for scored in looked_through.scored_steps(-1, step):
        looked_through.point(scored)
    point = course_of(config).point(step)
    assert point == looked_through.point(step)
    assert (point.rollouts, point.tokens) == (step * n * B, step * n * B * 4096)
    assert point.gpu_hours == pytest.approx(point.seconds * 4 / 3600)


def test_failures_strike_at_their_stated_rates() -> None:
    choice = SimulationChoice(failures=Failures(nan_per_update=0.01, lost_per_gpu_hour=0.5))
    found = [course_of(trial(choice, seed=seed)).breakdown(0, 100) for seed in range(600)]
    assert sum(one is not None for one in found) / 600 == pytest.approx(1 - 0.99**100, abs=0.06)
    assert {one.kind for one in found if one is not None} == {"nan"}
    config = trial(choice, machine=Machine(gpus=4))
    work = Work(1, 1, 0, config.model_dump(mode="json"), "", 0, 1, 1.0)
    lives = [seconds_until_lost(course_of(config), replace(work, attempt=attempt)) for attempt in range(2000)]
    assert statistics.mean(lives) == pytest.approx(1800, rel=0.1)
    assert seconds_until_lost(course_of(config), replace(work, attempt=3)) == lives[3]


@given(st.integers(1, 150), st.integers(1, 900), st.integers(-1, 60), st.integers(0, 60))
def test_validations_come_where_a_multiple_of_the_cadence_is_passed(
    prompts: int, every: int, after: int, further: int
) -> None:
    upto, rollouts = after + further, 2 * prompts
    due = [
        step
        for step in range(after + 1, upto + 1)
        if step == 0 or step * rollouts // every > (step - 1) * rollouts // every
    ]
    course = course_of(trial(CHOICE, 2, prompts, every=every))
    assert course.scored_steps(after, upto) == due
    assert [step for step in range(after + 1, upto + 1) if course.point(step).score is not None] == due


def timed(**costs: float) -> Course:
    """Return a trial of 32 rollouts per step, validated with 400 answers in every third."""
    given = Costs(**{"seconds_per_update": 3.0, "seconds_per_rollout": 0.1, "seconds_per_answer": 0.01, **costs})
    choice = SimulationChoice(seed=1, costs=given)
    return course_of(trial(choice, seed=4, every=96))


def test_an_update_is_affine_in_its_rollouts_and_spreads_about_that_and_validations_come_on_top() -> None:
    plain, spread = timed(spread=0.0), timed(spread=0.2, seconds_per_answer=0.0)
    assert [plain.seconds(step) for step in (0, 2, 3)] == pytest.approx([4.0, 4.0 + 2 * 6.2, 8.0 + 3 * 6.2])
    assert spread.seconds(PERIOD) == pytest.approx(PERIOD * 6.2)
    updates = [after - before for before, after in pairwise(spread.seconds(step) for step in range(PERIOD + 1))]
    assert statistics.stdev(map(math.log, updates)) == pytest.approx(0.2, rel=0.05)


@given(st.floats(0, 1e6))
def test_the_step_at_a_time_is_the_first_that_is_over_then(time: float) -> None:
    of = timed()
    step = step_at(of, time)
    assert of.seconds(step) >= time
    assert step == 0 or of.seconds(step - 1) < time
