"""What every trainer backend promises; a backend's test module takes these tests in and gives a `backend` fixture."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from budgets.errors import CheckpointError, InputError, NotFoundError
from runner.ports.backend import Point, Segment, TrainerBackend
from runner.ports.trial import TrialConfig
from runner.training.trial import OpenTrial

NewBackend = Callable[[], TrainerBackend]


def steps(points: list[Point]) -> list[int]:
    return [point.optimizer_step for point in points]


def test_a_trial_from_its_start_over_a_pause_to_its_end(
    new_backend: NewBackend, config: TrialConfig, tmp_path: Path
) -> None:
    first = new_backend()
    first.start(config, tmp_path)
    trial = OpenTrial(first, tmp_path, None)  # which keeps the points in the folder, where a backend finds them again
    points = list(trial.train(3))
    assert list(trial.train(3)) == []  # there already
    saved = first.checkpoint()
    assert saved.step == 3
    assert saved.path.is_relative_to(tmp_path)
    assert saved.path.exists()
    trial.close()
    first.close()

    second = new_backend()
    assert second.restore(config, tmp_path) == 3
    trial = OpenTrial(second, tmp_path, 3)
    points += trial.train(5)
    trial.close()

    assert steps(points) == [0, 1, 2, 3, 4, 5]
    made = config.rollouts_per_step
    assert [point.rollouts for point in points] == [step * made for step in range(6)]
    for before, after in pairwise(points):
        assert after.seconds > before.seconds
        assert after.gpu_hours == pytest.approx(after.seconds * config.machine.gpus / 3600)
        assert after.tokens > before.tokens
    assert points[0].score is not None  # the base model, before any update
    assert [point.score is not None for point in points[1:]] == [False, True, False, True, False]
    scored = [point for point in points if point.score is not None]
    assert all(0 <= point.score <= 1 and point.score_standard_error >= 0 for point in scored)


def test_a_folder_with_a_trial_is_not_started_anew(
    new_backend: NewBackend, config: TrialConfig, tmp_path: Path
) -> None:
    backend = new_backend()
    backend.start(config, tmp_path)
    list(backend.advance(Segment(1)))
    backend.checkpoint()
    backend.close()
    with pytest.raises(InputError, match="holds checkpoints of a trial already"):
        new_backend().start(config, tmp_path)
    changed = TrialConfig.model_validate({**dict(config), "seed": 9})
    with pytest.raises(InputError, match="seed was 0 and is 9"):
        new_backend().restore(changed, tmp_path)


def test_a_segment_stops_when_it_is_told_to_and_what_was_saved_is_gone_on_from(
    new_backend: NewBackend, config: TrialConfig, tmp_path: Path
) -> None:
    first = new_backend()
    first.start(config, tmp_path)
    trial = OpenTrial(first, tmp_path, None)
    points: list[Point] = []
    for point in trial.train(40, lambda: len(points) > 2):
        points.append(point)
    trial.save()
    saved = trial.step
    trial.close()
    assert 2 <= points[-1].optimizer_step < 40
    assert saved is not None
    assert saved <= points[-1].optimizer_step
    second = new_backend()
    assert second.restore(config, tmp_path) == saved
    trial = OpenTrial(second, tmp_path, saved)
    assert steps(list(trial.train(saved + 1))) == [saved + 1]
    trial.close()


def test_what_cannot_be_done_says_so(new_backend: NewBackend, config: TrialConfig, tmp_path: Path) -> None:
    backend = new_backend()
    with pytest.raises(NotFoundError, match="no sound checkpoint"):
        backend.restore(config, tmp_path)
    with pytest.raises(InputError, match="no trial is open"):
        list(backend.advance(Segment(1)))
    backend.start(config, tmp_path)
    with pytest.raises(CheckpointError, match="nothing to save"):
        backend.checkpoint()
    backend.close()
