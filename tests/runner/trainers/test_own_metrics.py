"""What a trainer of one's own says is checked before it is believed, shown with a process of its own."""

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from budgets.errors import TrainingError
from planner.config.trainer import TrainerChoice, chosen_trainer
from planner.recipes import load_recipe
from runner.backends import open_backend
from runner.ports.backend import Point
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.command.options import CheckpointOptions
from runner.training.trial import OpenTrial

OWN = Path(__file__).parent / "own" / "trainer.toml"
EVERY = 4  # updates between validations


def in_mode(mode: str) -> TrainerChoice:
    """Return the trainer whose metrics are as a mode says."""
    choice = chosen_trainer(str(OWN), None)
    assert choice is not None
    command = choice.options["command"].replace("--mode plain", f"--mode {mode}")
    return choice.model_copy(update={"options": {**choice.options, "command": command}})


def config(mode: str, **task: Any) -> TrialConfig:
    return TrialConfig(
        task=TaskChoice(name="sum-easy", reward="exact", **task),
        recipe=load_recipe("grpo"),
        rollouts_per_prompt=4,
        prompts_per_batch=2,
        learning_rate=3e-4,
        validation=ValidationPlan(problems=8, samples=2, every_rollouts=8 * EVERY),
        trainer=in_mode(mode),
    )


def trained(given: TrialConfig, folder: Path, to_step: int = 9) -> tuple[list[Point], tuple[str, ...]]:
    """Train a trial from its start; return its points and what was noted."""
    backend: Any = open_backend(given)
    backend.start(given, folder)
    with closing(OpenTrial(backend, folder, None)) as trial:
        points = list(trial.train(to_step))
        trial.save()
        return points, backend.notes


@pytest.mark.parametrize(
    ("mode", "named"),
    [
        ("percent", "score 30 was read at step 0.*reward_range = \\[0, 100\\]"),
        ("micro-batches", "step 16 was read in a segment that ends with update 9"),
        ("jump", "step 1,000,000,000,000,001 was read"),
        ("unscored", "due by step 4: no number was read as 'score'; the columns are step, loss, reward, acc:"),
    ],
)
def test_what_cannot_be_believed_ends_a_trial_and_says_what_was_read(mode: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=named) as caught:
        trained(config(mode), tmp_path)
    assert (caught.value.kind, caught.value.tail) == ("metrics", str(caught.value))


@pytest.mark.parametrize(
    ("mode", "noted", "scores"),
    [("nan", "score = nan at step 4", 1), ("infinite", "response_tokens = inf", 4), ("back", "step 1 was read", 4)],
)
def test_what_is_no_number_or_comes_late_is_passed_over_with_a_note(
    mode: str, noted: str, scores: int, tmp_path: Path
) -> None:
    points, notes = trained(config(mode), tmp_path)
    assert [point.optimizer_step for point in points] == list(range(10))
    assert sum(point.score is not None for point in points) == scores
    assert all(point.score is None or math.isfinite(point.score) for point in points)
    assert any(noted in note for note in notes)


def test_scores_in_percent_are_taken_by_the_range_of_the_reward(tmp_path: Path) -> None:
    points, notes = trained(config("percent", reward_range=[0.0, 100.0]), tmp_path)
    assert points[0].score == pytest.approx(0.3)
    assert notes == ()


@pytest.mark.parametrize("pattern", ["../../ck/checkpoint-{step}.pt", "../checkpoint-{step}", "a/../checkpoint-{step}"])
def test_a_pattern_of_checkpoints_stays_in_its_trials_folder(pattern: str) -> None:
    with pytest.raises(ValidationError, match=r"no \.\."):
        CheckpointOptions(pattern=pattern)
