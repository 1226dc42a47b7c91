"""A trainable of Ray Tune's as a trainer: its curve, its checkpoints, and going on after a kill."""

from contextlib import closing
from pathlib import Path

import pytest

from budgets.errors import InputError, NotFoundError, TrainingError
from planner.config.trainer import TrainerChoice, chosen_trainer
from planner.recipes import load_recipe
from runner.backends import open_backend
from runner.ports.backend import Point
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.catalogue import driver_of
from runner.training.trial import OpenTrial

OWN = Path(__file__).parent / "own"


@pytest.fixture(autouse=True)
def in_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OWN)


def configured(trainer: TrainerChoice | None) -> TrialConfig:
    return TrialConfig(
        task=TaskChoice(name="sum-easy", reward="exact"),
        recipe=load_recipe("grpo"),
        rollouts_per_prompt=4,
        prompts_per_batch=2,
        learning_rate=0.01,
        validation=ValidationPlan(problems=8, samples=2, every_rollouts=16),
        trainer=trainer,
    )


def trained(folder: Path, trainable: str, *until: int) -> list[Point]:
    """Train up to each step by a process of its own, which is then killed."""
    config = configured(chosen_trainer(trainable, None))
    folder.mkdir()
    points: list[Point] = []
    for step in until:
        backend = open_backend(config)
        at = None
        try:
            at = backend.restore(config, folder)
        except (NotFoundError, FileNotFoundError):
            backend.start(config, folder)
        with closing(OpenTrial(backend, folder, at)) as trial:
            points += trial.train(step)
            trial.save()
    return points


@pytest.mark.parametrize("trainable", ["trainables:learn", "trainables:Learner:eval/acc"])
def test_what_is_killed_goes_on_to_the_same_curve(tmp_path: Path, trainable: str) -> None:
    whole, parts = trained(tmp_path / "whole", trainable, 9), trained(tmp_path / "parts", trainable, 4, 9)
    curve = {point.optimizer_step: point.score for point in whole if point.score is not None}
    assert curve == pytest.approx({step: 1 - 0.9 * 0.96**step for step in range(1, 10)})
    assert {point.optimizer_step: point.score for point in parts if point.score is not None} == curve
    assert whole[-1].rollouts == 9 * 8


def test_a_function_that_saves_nothing_begins_anew(tmp_path: Path) -> None:
    points = trained(tmp_path / "trial", "trainables:learn_without_saving", 3, 5)
    assert [point.optimizer_step for point in points if point.score is not None] == [1, 2, 3, 1, 2, 3, 4, 5]


def test_one_that_ends_too_soon_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="ended in good order after step 3 of 4"):
        trained(tmp_path / "trial", "trainables:learn_briefly", 4)


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="nothing_here"):
        trained(tmp_path / "trial", "trainables:nothing_here", 2)


def test_a_file_that_is_rlplans_own_is_refused(tmp_path: Path) -> None:
    written = tmp_path / "own.toml"
    command = "train {rollouts_per_prompt} {prompts_per_batch} {learning_rate} {to_step} {resume_from}"
    written.write_text(f'command = "{command}"\n[files]\n"trial.json" = "{{}}"\n')
    config = configured(chosen_trainer(str(written), None))
    with pytest.raises(InputError, match=r"\[files\] trial.json: rlplan writes that itself"):
        driver_of(config)
