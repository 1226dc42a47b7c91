"""What a driven trial's checkpoints take: two while anybody may go on with it, none once it is pruned."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budgets.errors import CheckpointError
from planner.disk import DISK_IS_FULL
from planner.view import TrialState
from runner.ports.backend import Segment
from runner.sweep.recovery import Tidying
from runner.trainers.backend import DrivenBackend
from runner.trainers.standin.driver import driver
from runner.training import checkpoints
from runner.training.trial import OpenTrial
from tests.runner.trainers.standins import standin_config

CONFIG = standin_config(save_every_steps=1, checkpoint_bytes=2000)


def saved(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in (folder / "trainer").glob("checkpoint-*[0-9]"))


def test_a_trial_keeps_two_and_a_pruned_one_none(tmp_path: Path) -> None:
    backend = DrivenBackend(driver(CONFIG))
    backend.start(CONFIG, tmp_path)
    trial = OpenTrial(backend, tmp_path, None)
    list(trial.train(5))
    trial.save()
    assert saved(tmp_path) == [4, 5]
    trial.close()
    assert saved(tmp_path) == [4, 5]  # should the last turn out to be torn

    checkpoints.save(tmp_path / "ours", 3, {"step": 3}, checkpoints.PLAIN)
    facts = {
        1: SimpleNamespace(folder=tmp_path, config=CONFIG.model_dump(mode="json"), storage=None),
        2: SimpleNamespace(folder=tmp_path / "ours", config={}, storage=None),
    }
    states = {1: TrialState.PAUSED, 2: TrialState.PRUNED}
    trials = {number: SimpleNamespace(state=state) for number, state in states.items()}
    board: Any = SimpleNamespace(trials=trials, facts=facts, running={})
    tidying = Tidying(board)
    tidying.after_commit()
    trials[1].state = TrialState.PRUNED
    board.running[7] = SimpleNamespace(trial=1)
    tidying.after_commit()  # its worker is still at it
    tidying.end()
    assert saved(tmp_path) == [4, 5]
    assert not list((tmp_path / "ours").glob("checkpoint-*"))
    del board.running[7]
    tidying = Tidying(board)  # of the next driver
    tidying.after_commit()
    tidying.end()
    assert saved(tmp_path) == []
    assert (tmp_path / "metrics.jsonl").exists()


def test_a_segment_whose_checkpoints_find_no_room_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = DrivenBackend(driver(CONFIG))
    backend.start(CONFIG, tmp_path)
    list(backend.advance(Segment(1)))
    backend.checkpoint()
    backend.close()
    usage = shutil.disk_usage(tmp_path)._replace(free=4000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    again = DrivenBackend(driver(CONFIG))
    again.restore(CONFIG, tmp_path)
    with pytest.raises(CheckpointError, match=DISK_IS_FULL):
        list(again.advance(Segment(3)))
    again.close()
    assert not (tmp_path / "trainer" / "attempt-2.log").exists()
