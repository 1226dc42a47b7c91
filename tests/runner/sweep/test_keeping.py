"""The best checkpoint is out of its trainer's reach, and a final run goes on from a copy, whoever trained it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from budgets.errors import CheckpointError, InputError, NotFoundError
from planner.view import ScorePoint
from runner.ports.backend import Point
from runner.ports.trial import TrialConfig
from runner.sweep import kept as kept_module
from runner.sweep.kept import BestCheckpoint, FromPilot, copy_pilot, keep_best
from runner.trainers.backend import DrivenBackend
from runner.trainers.catalogue import newest_step
from runner.trainers.checkpoints import FOLDER
from runner.trainers.standin.driver import driver
from runner.training import checkpoints
from runner.training.trial import OpenTrial, read_points
from tests.conformance.test_trainer_backend_standin import TABLE
from tests.runner.trainers.standins import form_of, standin_config

FORMS = {
    "standin": {},
    "command": form_of("command", TABLE),
    **{name: form_of(name) for name in ("trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")},
}


@pytest.fixture(params=FORMS.values(), ids=FORMS.keys())
def config(request: pytest.FixtureRequest) -> TrialConfig:
    return standin_config(save_every_steps=1, checkpoint_bytes=2**20 + 1, **request.param)


class Trained:
    """A trial in a folder, trained segment by segment."""

    def __init__(self, config: TrialConfig, folder: Path) -> None:
        self.backend = DrivenBackend(driver(config))
        try:
            self.step: int | None = self.backend.restore(config, folder)
        except NotFoundError:  # there is none yet
            self.step = None
            self.backend.start(config, folder)
        self.trial = OpenTrial(self.backend, folder, self.step)

    def to(self, step: int) -> list[Point]:
        points = list(self.trial.train(step))
        self.trial.save()
        return points


@pytest.fixture
def trained(config: TrialConfig, tmp_path: Path) -> Iterator[Trained]:
    made = Trained(config, tmp_path / "run")
    yield made
    made.trial.close()


def seen(scores: dict[int, float]) -> list[ScorePoint]:
    return [ScorePoint(step, float(step), score, 0.1) for step, score in scores.items()]


def scores(points: list[Point]) -> dict[int, float | None]:
    return {point.optimizer_step: point.score for point in points if point.score is not None}


def test_it_survives_its_trainers_rotation_and_a_copy_of_it_goes_on_as_the_run_did(
    config: TrialConfig, trained: Trained, tmp_path: Path
) -> None:
    run, best = tmp_path / "run", tmp_path / "run" / "best"
    trained.to(2)
    assert keep_best(config, run, seen({0: 0.1, 2: 0.5})) == 2
    points = trained.to(4)
    assert keep_best(config, run, seen({0: 0.1, 2: 0.5, 4: 0.7})) == 4
    assert not list((run / FOLDER).glob("**/best"))
    later = trained.to(10)
    assert newest_step(config, run) == 10
    assert keep_best(config, run, seen({0: 0.1, 2: 0.5, 4: 0.7, 6: 0.6, 8: 0.7, 10: 0.6})) == 4
    assert newest_step(config, best) == 4
    assert [point.optimizer_step for point in read_points(best)] == [0, 1, 2, 3, 4]
    assert not [path for path in run.iterdir() if path.name.startswith("best.")]

    other = tmp_path / "other"
    copy_pilot(FromPilot(1, best, 4), config, other)
    again = Trained(config, other)
    try:
        assert again.step == 4
        assert scores(again.to(10)) == scores(later)
    finally:
        again.trial.close()
    assert scores(read_points(other)).items() >= scores(points).items()
    assert newest_step(config, best) == 4


@pytest.mark.parametrize("config", [FORMS["verl"]], indirect=True)
def test_large_files_get_another_name_and_where_there_are_no_links_they_are_copied(
    config: TrialConfig, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    def shared() -> set[int]:
        return {path.stat().st_nlink for path in (run / "best").rglob("*") if path.is_file() and large(path)}

    def large(path: Path) -> bool:
        return path.stat().st_size > 2**20

    trained.to(2)
    keep_best(config, run, seen({2: 0.5}))
    assert shared() == {2}

    def refused(source: str, target: str) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    trained.to(4)
    assert keep_best(config, run, seen({2: 0.5, 4: 0.7})) == 4
    assert shared() == {1}


@pytest.mark.parametrize("config", [FORMS["verl"]], indirect=True)
def test_of_those_whose_checkpoints_are_left_the_best_is_kept(
    config: TrialConfig, trained: Trained, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    trained.to(2)
    keep_best(config, run, seen({2: 0.5}))
    trained.to(8)
    assert keep_best(config, run, seen({2: 0.5, 4: 0.9, 6: 0.4, 8: 0.45})) == 2
    assert keep_best(config, run, seen({2: 0.5, 4: 0.9, 6: 0.4, 8: 0.6})) == 8
    assert newest_step(config, run / "best") == 8
    with pytest.raises(CheckpointError, match="holds no checkpoint up to update 1"):
        copy_pilot(FromPilot(1, run, 1), config, tmp_path / "other")


@pytest.mark.parametrize("config", [FORMS["verl"]], indirect=True)
def test_one_that_was_killed_between_two_names_finds_the_old_best_again(
    config: TrialConfig, trained: Trained, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    trained.to(2)
    keep_best(config, run, seen({2: 0.5}))
    (run / "best").rename(run / "best.former")
    trained.to(8)
    assert keep_best(config, run, seen({2: 0.5, 4: 0.1, 6: 0.1, 8: 0.1})) == 2


@pytest.mark.parametrize("config", [FORMS["verl"]], indirect=True)
def test_the_best_is_kept_as_the_run_goes_on_and_what_cannot_be_is_told_once(
    config: TrialConfig, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, kept = tmp_path / "run", BestCheckpoint(config, tmp_path / "run")
    assert kept.end(seen({0: 0.9})) is None
    trained.to(2)
    assert newest_step(config, run / "best") is None  # the base model has no checkpoint
    kept = BestCheckpoint(config, run)
    assert kept.end(seen({0: 0.9, 2: 0.5})) is None
    assert newest_step(config, run / "best") == 2

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    kept = BestCheckpoint(config, run)
    trained.to(4)
    monkeypatch.setattr(kept_module, "_copy", full)
    said = kept.end(seen({2: 0.5, 4: 0.7}))
    assert said is not None
    assert "could not be kept: [Errno 28] No space left on device" in said
    assert newest_step(config, run / "best") == 2


@pytest.mark.parametrize("config", [FORMS["trl"]], indirect=True)
def test_a_copy_at_another_learning_rate_is_that_of_a_trial_with_that_rate(
    config: TrialConfig, trained: Trained, tmp_path: Path
) -> None:
    trained.to(4)
    slower = config.model_copy(update={"learning_rate": 1e-7})
    former = FromPilot(1, tmp_path / "run", 4, config)
    copy_pilot(former, config, tmp_path / "same")
    with pytest.raises(InputError, match="learning_rate was 1e-06 and is 1e-07"):
        DrivenBackend(driver(slower)).restore(slower, tmp_path / "same")
    copy_pilot(former, slower, tmp_path / "slower")
    assert DrivenBackend(driver(slower)).restore(slower, tmp_path / "slower") == 4


@pytest.mark.parametrize("form", [checkpoints.PLAIN, checkpoints.TENSORS], ids=["simulated", "tensors"])
def test_our_own_checkpoint_takes_another_learning_rate(tmp_path: Path, form: str) -> None:
    config = standin_config().model_copy(update={"trainer": None})
    state = {"config": config.model_dump(mode="json"), "step": 3}
    checkpoints.save(tmp_path / "run", 3, state, form)
    slower = config.model_copy(update={"learning_rate": 1e-7})
    copy_pilot(FromPilot(1, tmp_path / "run", 3, config), slower, tmp_path / "slower")
    found = checkpoints.resumed(tmp_path / "slower", slower, form)
    assert (found.notes, found.state["step"]) == ((), 3)
    assert checkpoints.resumed(tmp_path / "run", config, form).state == state


def test_a_tracker_that_is_written_anew_in_place_leaves_the_copy_as_it_was(tmp_path: Path) -> None:
    config = standin_config(**form_of("verl"))
    run = Trained(config, tmp_path / "run")
    try:
        run.to(2)
        keep_best(config, tmp_path / "run", seen({2: 0.5}))
        (tracker,) = (tmp_path / "run" / "best" / FOLDER).rglob("latest_checkpointed_iteration.txt")
        before = tracker.read_text()
        (tmp_path / "run" / tracker.relative_to(tmp_path / "run" / "best")).write_text("0")
        assert tracker.read_text() == before == "2"
    finally:
        run.trial.close()
