"""A trial of a sweep goes on as a run of its own, and nothing of the trial changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import CheckpointError, InputError, NotFoundError
from rlplan.actions.train_request import TrainRequest
from rlplan.actions.training import train
from runner.training.trial import METRICS
from tests.rlplan.train_backend import Scripted, steps

PILOT, HERE = Path("trials/n16-B32-s0"), Path("here")


@pytest.fixture(autouse=True)
def _pilot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PILOT.mkdir(parents=True)
    (PILOT / "checkpoint-00000005.pt").write_text("5")
    point = {"rollouts": 0, "tokens": 0, "seconds": 1.0, "gpu_hours": 0.1, "score": 0.4, "score_standard_error": 0.01}
    lines = [{"step": step, **point, "metrics": {}, "flags": []} for step in range(8)]
    (PILOT / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"ste')


def request(**changes: Any) -> TrainRequest:
    return TrainRequest(**{"task": "sum-easy", "steps": 10, "out": HERE, "from_pilot": PILOT, **changes})


def test_the_run_goes_on_from_the_trials_checkpoint() -> None:
    trained = train(request(), backend=Scripted())
    assert steps(HERE) == list(range(11))  # what the trial did beyond its checkpoint is done again
    assert trained.history.scored[0].gpu_hours == 0.1
    assert trained.history.last is not None
    assert trained.history.last.optimizer_step == 10
    assert sorted(path.name for path in PILOT.iterdir()) == ["checkpoint-00000005.pt", METRICS]
    train(TrainRequest(resume=True, out=HERE, steps=12), backend=Scripted())
    assert steps(HERE) == list(range(13))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"from_pilot": Path("nowhere")}, NotFoundError, "in nowhere: .* where its sweep's folder was moved"),
        ({"steps": 5}, InputError, "has made 5 updates already, and --steps is 5"),
        ({"resume": True}, InputError, "--from-pilot begins a run, and --resume goes on with one"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(changes: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        train(request(**changes), backend=Scripted())
    assert not HERE.exists()


def test_a_trial_of_another_configuration_is_refused_and_the_folder_left_as_it_was() -> None:
    HERE.mkdir()
    (HERE / "notes.txt").write_text("mine")

    class Strict(Scripted):
        def restore(self, config: Any, folder: Path) -> int:
            raise InputError("the trial was started with 8 rollouts per prompt, and 16 are given")

    with pytest.raises(InputError, match="8 rollouts per prompt"):
        train(request(), backend=Strict())
    assert [path.name for path in HERE.iterdir()] == ["notes.txt"]


def test_a_full_disk_is_said_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rlplan.actions.train_folder.shutil.copyfile", full)
    with pytest.raises(CheckpointError, match="cannot be copied to here: the disk is full"):
        train(request(), backend=Scripted())
    assert not HERE.exists()
