"""What becomes of a trainer that breaks down, shown with the stand-in's real processes."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from budgets.errors import NotFoundError, TrainingError
from planner.config.trainer import Patience
from runner.ports.backend import Point, Segment
from runner.ports.trial import SimulationChoice, TrialConfig
from runner.processes import SWEEP_TAG, tagged
from runner.trainers.backend import DrivenBackend
from runner.trainers.standin.driver import driver
from runner.training.trial import OpenTrial, read_points
from tests.runner.trainers.standins import COSTS, form_of, standin_config
from tests.runner.waiting import until

LAST = 8
PATIENCE = Patience(start_up_seconds=60, least_seconds=1.5, median_steps=5, pause_seconds=1.5, stop_seconds=0.3)


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> str:
    """Mark all that the test starts; it is in nobody else's environment."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(SWEEP_TAG, value)
    return f"{SWEEP_TAG}={value}"


def opened(config: TrialConfig, folder: Path) -> OpenTrial:
    """Go on from the newest checkpoint, or start."""
    backend = DrivenBackend(driver(config))
    with suppress(NotFoundError):
        return OpenTrial(backend, folder, backend.restore(config, folder))
    backend.start(config, folder)
    return OpenTrial(backend, folder, None)


def attempts(config: TrialConfig, folder: Path) -> Iterator[TrainingError]:
    """Train to the last step, going on after each failure, which is yielded."""
    for _ in range(6):
        trial = opened(config, folder)
        try:
            list(trial.train(LAST))
            trial.save()
        except TrainingError as error:
            failure = error
        else:
            return
        finally:
            trial.close()
        yield failure
    raise AssertionError("the last step was not reached")


def trained(config: TrialConfig, folder: Path) -> list[TrainingError]:
    """Train to the last step, and return the failures on the way."""
    return list(attempts(config, folder))


def scores(points: list[Point]) -> list[tuple[int, float | None]]:
    return [(point.optimizer_step, point.score) for point in points]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    folder = Path(tmp_path_factory.mktemp("undisturbed"))
    assert trained(standin_config(), folder) == []
    return read_points(folder)


@pytest.fixture
def undisturbed(plain: list[Point]) -> list[tuple[int, float | None]]:
    return scores(plain)


@pytest.mark.parametrize(
    ("faults", "every", "kinds", "message", "log"),
    [
        (["hang"], 2, ["hang"], "nothing was heard of the trainer for", "in _break"),
        (["out-of-memory"], 2, ["out-of-memory"], "CUDA out of memory", "CUDA out of memory"),
        (["killed"], 2, ["lost"], "SIGKILL", ""),
        (["refused"], 2, ["input"], "unrecognized arguments: --rollouts", "unrecognized"),
        (["torn-checkpoint", "killed"], 2, ["lost", "checkpoint"], "SIGKILL", ""),
        (["torn-checkpoint", "killed"], 4, ["lost", "checkpoint"], "SIGKILL", ""),  # the only one: it begins anew
        (["cut-line", "slow-start"], 2, [], "", ""),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_a_failure_has_a_class_and_the_trial_goes_on_as_if_undisturbed(
    faults: list[str],
    every: int,
    kinds: list[str],
    message: str,
    log: str,
    tag: str,
    undisturbed: list[tuple[int, float | None]],
    tmp_path: Path,
) -> None:
    at = {"torn-checkpoint": 4}
    told = [{"kind": kind, "at_step": at.get(kind, 5)} for kind in faults]
    config = standin_config(PATIENCE, faults=told, save_every_steps=every, slow_seconds=0.5)
    failures = trained(config, tmp_path)
    assert [failure.kind for failure in failures] == kinds
    if kinds:
        assert message in str(failures[0])
        assert log in failures[0].tail
    assert scores(read_points(tmp_path)) == undisturbed
    assert tagged({tag}) == set()


@pytest.mark.parametrize("trainer", ["prime-rl", "nemo-rl", "slime"])
def test_with_the_files_of_others_a_torn_checkpoint_is_put_aside_and_every_point_read_once(
    trainer: str, plain: list[Point], tmp_path: Path
) -> None:
    faults = [{"kind": "torn-checkpoint", "at_step": 4}, {"kind": "killed", "at_step": 5}]
    faults += [{"kind": "cut-line", "at_step": 2, "attempts": 0}]
    config = standin_config(**form_of(trainer), gated=False, save_every_steps=2, faults=faults)

    failures = trained(config, tmp_path)

    assert [failure.kind for failure in failures] == ["lost", "checkpoint"]
    points = read_points(tmp_path)
    for name in ("optimizer_step", "tokens"):
        assert [getattr(point, name) for point in points] == [getattr(point, name) for point in plain]
    for name in ("score", "score_standard_error"):  # each writes every answer of a validation
        said, told = ([getattr(point, name) for point in each if point.score is not None] for each in (points, plain))
        assert said == pytest.approx(told)


def test_of_checkpoints_that_cannot_be_read_one_is_kept_until_a_later_save(tag: str, tmp_path: Path) -> None:
    torn = [{"kind": "torn-checkpoint", "at_step": 4, "attempts": 3}]
    killed = [{"kind": "killed", "at_step": 5, "attempts": 3}]
    config = standin_config(PATIENCE, faults=torn + killed, save_every_steps=2)
    own = tmp_path / "trainer"
    found = [(failure.kind, [path.name for path in own.glob("unsound-*")]) for failure in attempts(config, tmp_path)]
    one = ["unsound-checkpoint-4"]
    assert found == 2 * [("lost", []), ("checkpoint", one)]  # a later one is saved, and torn again
    assert not list(own.glob("unsound-*"))
    assert {path.name for path in own.glob("*checkpoint-*")} == {"checkpoint-6", "checkpoint-8"}


def test_losses_that_are_no_numbers_end_a_trial(tag: str, tmp_path: Path) -> None:
    trial = opened(standin_config(PATIENCE, faults=[{"kind": "nan", "at_step": 5}]), tmp_path)
    with pytest.raises(TrainingError, match="up to 7, had a loss that is not finite") as caught:
        list(trial.train(1_500))
    trial.close()
    assert caught.value.kind == "nan"
    assert [point.optimizer_step for point in read_points(tmp_path)] == list(range(7))
    assert tagged({tag}) == set()


def test_a_trainer_that_does_not_come_up_hangs(tag: str, tmp_path: Path) -> None:
    patience = PATIENCE.model_copy(update={"start_up_seconds": 0.5})
    config = standin_config(patience, faults=[{"kind": "slow-start"}], slow_seconds=600.0)
    trial = opened(config, tmp_path)
    with pytest.raises(TrainingError, match="start_up_seconds") as caught:
        list(trial.train(LAST))
    trial.close()
    assert caught.value.kind == "hang"
    assert tagged({tag}) == set()


def test_a_silent_trainer_is_looked_at_less_and_less_often(tag: str, tmp_path: Path) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        time.sleep(seconds)

    config = standin_config(PATIENCE, faults=[{"kind": "slow-start"}], slow_seconds=0.8)
    backend = DrivenBackend(driver(config), sleep=sleep, look_seconds=0.4)
    backend.start(config, tmp_path)
    next(points := backend.advance(Segment(60)))
    silent = list(looks)
    list(points)
    backend.close()
    assert silent[:4] == [0.05 * 2**look for look in range(1, 4)] + [0.4]
    assert len(silent) < 10
    assert looks[len(silent)] == 0.05  # something was new


@pytest.mark.parametrize("gated", [True, False])
def test_a_trainer_that_does_not_stop_is_killed_and_goes_on_from_what_it_saved(
    gated: bool, tag: str, undisturbed: list[tuple[int, float | None]], tmp_path: Path
) -> None:
    config = standin_config(PATIENCE, faults=[{"kind": "deaf"}], save_every_steps=2, gated=gated)
    trial = opened(config, tmp_path)
    seen: list[Point] = []
    for point in trial.train(1_500, lambda: len(seen) > 4):
        seen.append(point)
    trial.save()
    saved = trial.step
    trial.close()
    assert tagged({tag}) == set()
    assert saved
    assert saved % 2 == 0
    assert scores(read_points(tmp_path))[: LAST + 1] == undisturbed[: saved + 1]


def test_a_trainer_that_is_ended_in_its_first_validation_has_not_failed(tag: str, tmp_path: Path) -> None:
    slow = SimulationChoice(seed=5, costs=COSTS.model_copy(update={"seconds_per_answer": 20.0}))
    trial = opened(standin_config(PATIENCE).model_copy(update={"simulation": slow}), tmp_path)
    said = tmp_path / "trainer"

    def stopping() -> bool:
        return any(path.stat().st_size for path in said.glob("*metrics*"))

    assert list(trial.train(LAST, stopping)) == []
    trial.save()
    assert trial.step == 0
    trial.close()


@pytest.mark.parametrize(("trainer", "stops_on"), [("prime-rl", "nothing"), ("slime", "file")])
def test_one_that_does_not_end_when_it_is_asked_is_ended_once_it_has_saved_what_it_had_done(
    trainer: str, stops_on: str, tag: str, plain: list[Point], tmp_path: Path
) -> None:
    patience = PATIENCE.model_copy(update={"stop_seconds": 60.0})
    every = {"nothing": 6, "file": 1_000}
    given = {"gated": False, "stops_on": stops_on, "save_every_steps": every[stops_on]}
    trial = opened(standin_config(patience, **form_of(trainer), **given), tmp_path)
    seen: list[Point] = []
    for point in trial.train(1_500, lambda: len(seen) > 3):
        seen.append(point)
    asked_after = 3
    trial.save()
    saved = trial.step
    trial.close()
    assert tagged({tag}) == set()
    assert saved is not None
    assert asked_after <= saved < 500
    assert [point.optimizer_step for point in read_points(tmp_path)] == list(range(saved + 1))


WORKER = """
import sys
from pathlib import Path
from tests.runner.trainers.test_failures import opened
from tests.runner.trainers.standins import COSTS, standin_config
trial = opened(standin_config(save_every_steps=2), Path(sys.argv[1]))
for point in trial.train(1_500):
    print(point.optimizer_step, flush=True)
    if point.optimizer_step == 3:  # from here on nobody reads what the trainer says
        sys.stdin.read()
"""


def test_a_killed_workers_trainer_ends_and_what_nobody_read_is_recovered(
    tag: str, undisturbed: list[tuple[int, float | None]], tmp_path: Path
) -> None:
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root}
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path)], stdin=subprocess.PIPE, env=environment, cwd=root
    )
    own = tmp_path / "trainer"
    until(lambda: any(int(path.name.split("-")[1]) >= 6 for path in own.glob("checkpoint-*[0-9]")))
    until(lambda: len(read_points(tmp_path)) == 4)  # it may read slower than its trainer trains
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()
    until(lambda: not tagged({tag}))
    assert scores(read_points(tmp_path)) == undisturbed[:4]
    trial = opened(standin_config(save_every_steps=2), tmp_path)
    stood = trial.step
    assert stood is not None
    assert stood >= 6
    list(trial.train(stood))
    trial.close()
    points = read_points(tmp_path)
    assert [point.optimizer_step for point in points] == list(range(stood + 1))
    assert scores(points)[: LAST + 1] == undisturbed[: stood + 1]
    assert points[-1].seconds > points[3].seconds


def test_the_folder_of_a_sweep_that_was_moved_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened(standin_config(), tmp_path / "moved" / "trial")
    assert not (tmp_path / "moved").exists()
