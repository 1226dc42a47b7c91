from pathlib import Path

import pytest

from budgets.errors import InputError
from runner.backends.simulated import SimulatedBackend
from runner.ports.backend import Segment
from runner.ports.simulation import Failures, SimulationChoice
from runner.ports.trial import Machine, TrialConfig
from runner.simulation.opening import open_world
from runner.simulation.recorded_world import read_recordings
from tests.runner.simulation.worlds import trial

HEADER = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score"
ROWS = ["a,8,4,0,0,0.1", "a,8,4,0,0.5,0.2", "b,16,4,1,0.3,0.15", "a,8,4,0,1.5,0.3", "b,16,4,1,0.6,"]
STEPPED = HEADER + ",step,rollouts,tokens,score_standard_error,learning_rate"
STEPPED_ROWS = ["x,8,4,0,1.0,0.2,10,300,9000,0.01,1e-6", "x,8,4,0,3.0,0.4,30,900,27000,,1e-6"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "runs.csv"


def write(path: Path, header: str, rows: list[str]) -> SimulationChoice:
    path.write_text("\n".join([header, *rows]) + "\n")
    return SimulationChoice(kind="table", table=str(path))


def test_runs_are_read_in_their_order_with_one_update_a_row(table: Path) -> None:
    write(table, HEADER, ROWS)
    a, b = read_recordings(table)
    assert (a.run, a.trial, list(a.steps)) == ("a", (8, 4, 0), [0, 1, 2])
    assert list(a.gpu_hours) == [0, 0.5, 1.5]
    assert (b.run, b.trial, list(b.steps)) == ("b", (16, 4, 1), [1, 2])
    assert list(b.scores) == [0.15, None]
    write(table, HEADER, [ROWS[3], *ROWS[:3]])  # rows of a run may come in any order
    assert list(read_recordings(table)[0].gpu_hours) == [0, 0.5, 1.5]


def test_a_trial_lives_as_its_run_did(table: Path) -> None:
    choice = write(table, STEPPED, STEPPED_ROWS)
    course = open_world(choice).course(trial(choice, machine=Machine(gpus=2)))
    assert course.last_step == 30
    assert course.scored_steps(-1, 30) == [10, 30]
    assert course.scored_steps(10, 30) == [30]
    point = course.point(10)
    assert (point.rollouts, point.tokens, point.gpu_hours, point.score) == (300, 9000, 1.0, 0.2)
    assert (point.seconds, point.score_standard_error) == (1800.0, 0.01)
    assert course.point(30).score_standard_error is None
    between = course.point(20)
    assert (between.rollouts, between.gpu_hours, between.score) == (600, 2.0, None)
    start = course.point(0)
    assert (start.rollouts, start.seconds, start.score) == (0, 0.0, None)


def test_the_step_at_a_time_is_the_first_that_was_over_then(table: Path) -> None:
    choice = write(table, STEPPED, STEPPED_ROWS)
    course = open_world(choice).course(trial(choice))
    for seconds in (0.0, 1.0, 359.9, 360.0, 360.1, 3600.0, 7000.0, 10_800.0):
        step = course.step_at(seconds)
        assert course.seconds(step) >= seconds
        assert step == 0 or course.seconds(step - 1) < seconds
    assert course.step_at(1e9) == 30


def test_without_counts_they_follow_from_the_step(table: Path) -> None:
    choice = write(table, HEADER, ROWS)
    point = open_world(choice).course(trial(choice)).point(2)
    assert (point.rollouts, point.tokens) == (64, 64 * choice.response_tokens)


def test_a_recorded_trial_can_be_made_to_fail(table: Path) -> None:
    choice = write(table, STEPPED, STEPPED_ROWS).model_copy(update={"failures": Failures(at_step=4)})
    found = open_world(choice).course(trial(choice)).breakdown(0, 30)
    assert found is not None
    assert (found.step, found.kind) == (4, "nan")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"n": 8, "seed": 7}, r"n = 8, B = 4, seed = 7 in .*: of n × B = 8 × 4 the seeds are 0"),
        ({"n": 32}, r"n = 32, B = 4, seed = 0 in .*: recorded n × B are 16 × 4, 8 × 4"),
    ],
)
def test_a_trial_that_was_not_recorded_is_refused(table: Path, config: dict[str, int], says: str) -> None:
    choice = write(table, HEADER, ROWS)
    with pytest.raises(InputError, match=says):
        open_world(choice).course(trial(choice, **config))


@pytest.mark.parametrize(
    ("header", "rows", "says"),
    [
        # What every table of runs is held to is tested with the reading.
        (HEADER.replace(",seed", ""), ["a,8,4,0,0.1"], r"has no column seed: .* It has rollouts_per_prompt,"),
        (HEADER, ["a,8,4,0,0.1,0.1", "a,8,4,0,0.1,0.2"], r"run 'a': gpu_hours 0.1 occurs twice \(lines 2 and 3\)"),
        (HEADER, ["a,8,4,0,-1,0.1"], r"gpu_hours is below 0 \(line 2\)"),
        (HEADER + ",step", ["a,8,4,0,1,0.1,5", "a,8,4,0,2,0.1,5"], r"step does not grow \(line 3\)"),
        (HEADER, ["a,8,4,0,1,0.1", "b,8,4,0,1,0.1"], r"runs 'a' and 'b' are both of n = 8, B = 4, seed = 0"),
    ],
)
def test_a_table_that_cannot_be_used_says_where_and_why(table: Path, header: str, rows: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        open_world(write(table, header, rows))


def test_an_absent_table_is_named(table: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        open_world(SimulationChoice(kind="table", table=str(table)))


def test_a_changed_table_is_read_again(table: Path) -> None:
    choice = write(table, HEADER, ROWS)
    assert open_world(choice).course(trial(choice)).last_step == 2
    assert open_world(choice) is open_world(choice)
    write(table, STEPPED, STEPPED_ROWS)
    assert open_world(choice).course(trial(choice)).last_step == 30


def test_the_backend_refuses_to_go_beyond_the_recording(table: Path, tmp_path: Path) -> None:
    config: TrialConfig = trial(write(table, HEADER, ROWS))
    backend = SimulatedBackend()
    backend.start(config, tmp_path / "trial")
    with pytest.raises(InputError, match="recorded up to step 2, and step 3 is asked for"):
        list(backend.advance(Segment(3)))
    assert [point.score for point in backend.advance(Segment(2))] == [0.1, 0.2, 0.3]
