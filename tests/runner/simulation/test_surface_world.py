import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from runner.ports.simulation import Costs, Failures, Pathologies, SimulationChoice
from runner.ports.trial import Machine, TrialConfig
from runner.simulation.opening import open_world, world_of
from runner.simulation.surface_world import PERIOD, SurfaceCourse, SurfaceWorld
from tests.runner.simulation.worlds import trial

CHOICE = SimulationChoice(seed=3, pathologies=Pathologies(collapse=0.2, late_start=0.2))


@settings(max_examples=40)
@given(st.integers(0, 2000), st.integers(0, 10), st.sampled_from([2, 8, 64]), st.sampled_from([4, 32]))
def test_what_a_trial_does_at_a_step_follows_from_the_step_alone(step: int, seed: int, n: int, B: int) -> None:
    config = trial(CHOICE, n, B, seed=seed, every=640)
    looked_through = SurfaceWorld(CHOICE).course(config)
    for scored in looked_through.scored_steps(-1, step):
        looked_through.point(scored)
    assert SurfaceWorld(CHOICE).course(config).point(step) == looked_through.point(step)


def test_points_count_from_the_beginning() -> None:
    course = SurfaceWorld(CHOICE).course(trial(CHOICE, 8, 4, machine=Machine(gpus=4)))
    before, after = course.point(5), course.point(9)
    assert (before.rollouts, after.rollouts) == (160, 288)
    assert after.tokens == 288 * 4096
    assert after.seconds == course.seconds(9) > before.seconds
    assert after.gpu_hours == pytest.approx(after.seconds * 4 / 3600)
    assert before.score is None
    assert course.scored_steps(-1, 9) == [0, 2, 4, 6, 8]
    assert course.last_step is None


def test_measured_scores_scatter_about_the_mean_as_answers_do() -> None:
    choice = SimulationChoice(seed=1, score_noise=0.0)
    world = SurfaceWorld(choice)
    points = [world.course(trial(choice, seed=seed)).point(0) for seed in range(500)]
    scores = [point.score for point in points if point.score is not None]
    mean = world.surface.cell(8, 4).base
    assert statistics.mean(scores) == pytest.approx(mean, abs=0.005)
    assert statistics.pstdev(scores) == pytest.approx(math.sqrt(mean * (1 - mean) / 400), rel=0.1)
    assert points[0].score_standard_error == pytest.approx(statistics.pstdev(scores), rel=0.15)


def test_memory_fails_at_the_first_update_beyond_a_size() -> None:
    choice = SimulationChoice(failures=Failures(most_rollouts=64))
    world = SurfaceWorld(choice)
    assert world.course(trial(choice, 8, 8)).breakdown(0, 10**6) is None
    found = world.course(trial(choice, 8, 9)).breakdown(0, 5)
    assert found is not None
    assert (found.step, found.kind) == (1, "out-of-memory")
    assert "72 rollouts per step" in found.message
    assert world.course(trial(choice, 8, 9)).breakdown(1, 5) is None  # it stands behind it: another machine has made it


def test_nan_strikes_at_the_stated_rate_and_always_in_the_same_update() -> None:
    choice = SimulationChoice(failures=Failures(nan_per_update=0.01))
    world = SurfaceWorld(choice)
    courses = [world.course(trial(choice, seed=seed)) for seed in range(600)]
    found = [course.breakdown(0, 100) for course in courses]
    assert sum(one is not None for one in found) / 600 == pytest.approx(1 - 0.99**100, abs=0.06)
    assert found == [world.course(trial(choice, seed=seed)).breakdown(0, 100) for seed in range(600)]
    struck = next(one for one in found if one is not None)
    assert struck.kind == "nan"


def test_workers_are_lost_at_the_stated_rate_and_another_attempt_is_another_draw() -> None:
    choice = SimulationChoice(failures=Failures(lost_per_gpu_hour=0.5))
    course = SurfaceWorld(choice).course(trial(choice, machine=Machine(gpus=4)))
    lives = [course.seconds_until_lost(attempt, 0) for attempt in range(2000)]
    assert statistics.mean(lives) == pytest.approx(1800, rel=0.1)
    assert course.seconds_until_lost(3, 0) == lives[3]
    never = SimulationChoice()
    assert SurfaceWorld(never).course(trial(never)).seconds_until_lost(0, 0) == math.inf


def test_equal_choices_open_one_world() -> None:
    assert open_world(CHOICE) is open_world(CHOICE.model_copy())
    assert world_of(trial(CHOICE)) is open_world(CHOICE)
    assert open_world(CHOICE) is not open_world(CHOICE.model_copy(update={"costs": Costs(start_up_seconds=1)}))
    with pytest.raises(InputError, match="no section 'simulation'"):
        world_of(trial(None))


def test_a_choice_survives_the_database_and_an_old_configuration_has_none() -> None:
    config = trial(CHOICE)
    assert TrialConfig.model_validate_json(config.model_dump_json()) == config
    assert TrialConfig.model_validate(config.model_dump(mode="json")) == config
    old = {key: value for key, value in trial(None).model_dump(mode="json").items() if key != "simulation"}
    assert TrialConfig.model_validate(old).simulation is None


@pytest.mark.parametrize("given", [{"kind": "table"}, {"table": "runs.csv"}])
def test_a_table_belongs_to_its_kind(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="a table is given for the kind 'table', and for it alone"):
        SimulationChoice.model_validate(given)


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
    course = SurfaceWorld(CHOICE).course(trial(CHOICE, 2, prompts, every=every))
    assert course.scored_steps(after, upto) == due
    assert [step for step in range(after + 1, upto + 1) if course.point(step).score is not None] == due


def timed(*, spread: float = 0.2, answer: float = 0.01, seed: int = 4, every: int = 96) -> SurfaceCourse:
    """Return a trial of 32 rollouts per step, validated with 400 answers."""
    costs = Costs(seconds_per_update=3.0, seconds_per_rollout=0.1, spread=spread, seconds_per_answer=answer)
    choice = SimulationChoice(seed=1, costs=costs)
    return SurfaceWorld(choice).course(trial(choice, seed=seed, every=every))


@pytest.mark.parametrize(("every", "step", "validations"), [(96, 0, 1), (96, 2, 1), (96, 3, 2), (5, 7, 8)])
def test_an_update_is_affine_in_its_rollouts_and_validations_come_on_top(
    every: int, step: int, validations: int
) -> None:
    assert timed(spread=0.0, every=every).seconds(step) == pytest.approx(validations * 4.0 + step * 6.2)


def test_updates_spread_as_stated_and_over_a_period_cost_the_mean() -> None:
    of = timed(answer=0.0)
    updates = [after - before for before, after in pairwise(of.seconds(step) for step in range(PERIOD + 1))]
    assert of.seconds(PERIOD) == pytest.approx(PERIOD * 6.2)
    assert statistics.stdev(map(math.log, updates)) == pytest.approx(0.2, rel=0.05)
    assert of.seconds(3 * PERIOD + 5) - of.seconds(3 * PERIOD) == pytest.approx(of.seconds(5))
    assert timed(answer=0.0, seed=5).seconds(10) != pytest.approx(of.seconds(10), rel=1e-6)


@given(st.floats(0, 1e6))
def test_the_step_at_a_time_is_the_first_that_is_over_then(time: float) -> None:
    of = timed()
    step = of.step_at(time)
    assert of.seconds(step) >= time
    assert step == 0 or of.seconds(step - 1) < time
