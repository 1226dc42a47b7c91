"""Trainers that save by themselves train on from segment to segment in one process, and lose no step that is saved."""

import os
import signal
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from budgets.errors import TrainingError
from runner.backends import open_backend
from runner.ports.backend import Point
from runner.ports.trial import TrialConfig
from runner.training.trial import OpenTrial
from tests.conformance.test_trainer_backend_command import COMMAND, described
from tests.runner.trainers.standins import form_of, standin_config

EVERY = 2  # updates from one validation to the next
FORMS = ("verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")
STANDINS = {name: form_of(name) for name in FORMS} | {"stopped": {}}


def own_trainer(*flags: str) -> TrialConfig:
    """Return a trial by a script that saves as often as it is told to."""
    words = " ".join((COMMAND, "--save-every {save_every} --style jsonl", *flags))
    return described("jsonl", command=words)


@pytest.fixture(params=["command", "command, not to be asked", *STANDINS])
def config(request: pytest.FixtureRequest) -> TrialConfig:
    if request.param in STANDINS:
        return standin_config(gated=False, **STANDINS[request.param] | {"time_scale": 200})
    return own_trainer() if request.param == "command" else own_trainer("--no-stop")


def starts(folder: Path) -> int:
    """Return how often a trial's trainer was started."""
    return len(list(folder.glob("trainer/attempt-*.log")))


def opened(config: TrialConfig, folder: Path) -> OpenTrial:
    backend = open_backend(config)
    step = backend.restore(config, folder) if any(folder.glob("trainer/attempt-*.log")) else None
    if step is None:
        backend.start(config, folder)
    return OpenTrial(backend, folder, step)


def trained(trial: OpenTrial, segments: int, reach: int) -> list[Point]:
    """Return the points of so many segments, each up to the next validation and saved."""
    made: list[Point] = []
    for _ in range(segments):
        end = ((trial.step or 0) // EVERY + 1) * EVERY
        made += trial.train(end, reach=reach)
        trial.save()
        assert trial.step == made[-1].optimizer_step
        assert min(end, reach) <= trial.step <= reach
    return made


def test_segments_follow_each_other_in_one_process(config: TrialConfig, tmp_path: Path) -> None:
    with closing(opened(config, tmp_path)) as trial:
        points = trained(trial, 4, 400)
        last = points[-1].optimizer_step + EVERY
        points += trial.train(last, reach=last)
        trial.save()
        assert starts(tmp_path) == 1
        steps = [point.optimizer_step for point in points]
        assert steps == list(range(steps[-1] + 1))
        assert trial.step is not None
        assert last <= trial.step <= steps[-1] < 400
    assert not psutil.Process().children()


def test_a_trainer_that_is_killed_goes_on_from_what_was_saved_last(config: TrialConfig, tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    with closing(opened(config, tmp_path)) as trial:
        trained(trial, 2, 400)
        committed = trial.step
        for process in set(psutil.Process().children(recursive=True)) - before:
            os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(TrainingError) as failure:
            list(trial.train(300, reach=400))
        assert failure.value.kind == "lost"
    with closing(opened(config, tmp_path)) as trial:
        assert committed is not None
        assert trial.step is not None
        assert trial.step >= committed
        points = [*trial.earlier, *trained(trial, 1, 400)]
        assert starts(tmp_path) == 2
    steps = [point.optimizer_step for point in points]
    assert steps == list(range(steps[-1] + 1))


def test_what_reaches_its_end_while_nobody_listens_goes_on_beyond_it(config: TrialConfig, tmp_path: Path) -> None:
    with closing(opened(config, tmp_path)) as trial:
        points = trained(trial, 1, 6)
        for process in psutil.Process().children():
            process.wait(30)
        points += trained(trial, 3, 400)
    steps = [point.optimizer_step for point in points]
    assert steps == list(range(steps[-1] + 1))
    assert steps[-1] > 6
    assert starts(tmp_path) == 2


def test_one_that_never_saves_within_is_asked_to_at_the_next_validation(tmp_path: Path) -> None:
    config = own_trainer("--save-every 100000")  # whatever it was told before
    with closing(opened(config, tmp_path)) as trial:
        points = trained(trial, 1, 400)
        assert 2 * EVERY <= points[-1].optimizer_step < 40
        assert starts(tmp_path) == 1
