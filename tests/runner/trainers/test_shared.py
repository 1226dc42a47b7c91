"""What drivers of named trainers share: settings, checkpoints behind a tracker, our reward in another interpreter."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budgets.errors import CheckpointError, InputError, TrainingError
from planner.disk import DISK_IS_FULL
from planner.recipes.schema import Recipe
from planner.view import TrialState
from runner.ports.backend import Point, Segment
from runner.sweep.recovery import Tidying
from runner.trainers.backend import DrivenBackend
from runner.trainers.checkpoints import complete, numbered
from runner.trainers.keys import merged
from runner.trainers.launch import opened_task, reward_files
from runner.trainers.metric_lines import RewardReports
from runner.trainers.standin.driver import driver
from runner.trainers.trial_reward import Judge
from runner.training import checkpoints
from runner.training.trial import OpenTrial
from tests.runner.trainers.standins import standin_config, trial

PATTERN, TRACKER = "checkpoints/global_step_{step}", "checkpoints/latest.txt"
CONFIG = standin_config(save_every_steps=1, checkpoint_bytes=2000)


def saved(folder: Path, *steps: int, torn: int | None = None) -> None:
    for step in steps:
        path = folder / PATTERN.replace("{step}", str(step))
        path.mkdir(parents=True)
        if step != torn:
            (path / "data.pt").touch()


@pytest.mark.parametrize(
    ("said", "steps"),
    [("30", [30, 20]), ("", [40, 30, 20]), ("4x", [40, 30, 20]), (None, [40, 30, 20]), ("100", [40, 30, 20])],
)
def test_what_lies_beyond_the_tracker_is_torn_and_a_torn_tracker_counts_for_nothing(
    said: str | None, steps: list[int], tmp_path: Path
) -> None:
    saved(tmp_path, 20, 30, 40, 50, torn=50)
    if said is not None:
        (tmp_path / TRACKER).write_text(said)

    found = complete(tmp_path, PATTERN, TRACKER, ("data.pt",))

    assert [each.step for each in found] == steps
    goes_with_a_copy = (tmp_path / TRACKER,) if said in ("30", "100") else ()
    assert found[0].beside == goes_with_a_copy


def test_a_name_may_have_parts_that_are_not_known_beforehand(tmp_path: Path) -> None:
    for name in ("run-7/weights/step_4", "run-8/weights/step_9", "run-8/weights/step_x"):
        (tmp_path / name).mkdir(parents=True)

    assert sorted(number for number, _ in numbered(tmp_path, "run-*/weights/step_{step}")) == ["4", "9"]


@pytest.mark.parametrize("given", ["actor.optim.lr", "+actor.optim.lr", "actor.optim", "actor.optim.lr.value"])
def test_settings_must_not_be_ours_nor_stand_above_or_below_them_unless_they_are_free(given: str) -> None:
    with pytest.raises(InputError, match="rlplan sets that itself"):
        merged({"actor.optim.lr": 1e-6, "seed": 1}, {given: 1})
    assert merged({"lr": 1, "memory": 0.4}, {"memory": 0.6, "lrs": 2}, ["memory"]) == {"lr": 1, "memory": 0.6, "lrs": 2}


def test_our_reward_means_the_same_in_another_interpreter(tmp_path: Path) -> None:
    rewards = {"correct": 1.0, "wrong": -1.0, "overlong_share": 0.5}
    config = trial("trl", Recipe.model_validate({"name": "shaped", "rewards": rewards}))
    task = opened_task(config)
    for name, text in reward_files(config, task).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    right = [task.train[0].answer, task.validation[0].answer]
    longest = task.max_response_tokens
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "parts")!r})
from runner.trainers.trial_reward import judge_in
judge = judge_in({str(tmp_path)!r})
numbers = [0, judge.train_problems]
print(judge.scores(numbers, {right!r}), judge.scores(numbers, ["no", ""]))
print(judge.shaped(1.0), judge.shaped(0.0), judge.shaped(1.0, {longest}), judge.shaped(1.0, 1))
"""
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True).stdout

    assert said.splitlines() == ["[1.0, 1.0] [0.0, 0.0]", "1.0 -1.0 0.0 1.0"]


def test_failures_of_our_reward_reach_rlplan_whatever_the_trainer_makes_of_them(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("def act(problem, response): return {'score': float(response), 'words': len(response)}")
    config = trial("trl")
    laid = reward_files(config, opened_task(config))
    (tmp_path / "problems.jsonl").write_text(laid["problems.jsonl"])
    given = json.loads(laid["reward.json"])
    given["reward"] |= {"embedded": False, "reward": f"{file}:act"}
    (tmp_path / "reward.json").write_text(json.dumps(given))
    judge, reports = Judge(tmp_path), RewardReports(config, tmp_path, 0)

    def point(step: int) -> Point:
        return Point(step, step * config.rollouts_per_step, 0, 0.0, 0.0)

    assert "reward_failures" not in reports.counted(point(1)).metrics
    assert judge.scores([0, 1], ["1", "no number"]) == [1.0, 0.0]
    assert asyncio.run(judge.awaited(judge.train_problems, "0.5")) == 0.5
    counted = reports.counted(point(2)).metrics
    assert (counted["reward_failures"], counted["failed_reward_share"]) == (1, 1 / config.rollouts_per_step)
    assert counted["reward/words"] == 1, "of the responses that are trained on"
    judge.scores([0] * 20, ["none"] * 20)
    with pytest.raises(TrainingError, match=r"20 of 32 rewards failed, .*could not convert string to float: 'none'"):
        reports.counted(point(3))
    file.unlink()
    judge._reward.close()
    with pytest.raises(TrainingError, match="could not be started"):
        judge.scores([0], ["1"])
    assert reports.cause_of(TrainingError("error", "exit code 1")).kind == "lost"


def saved_steps(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in (folder / "trainer").glob("checkpoint-*[0-9]"))


def test_a_trial_keeps_two_and_a_pruned_one_none(tmp_path: Path) -> None:
    backend = DrivenBackend(driver(CONFIG))
    backend.start(CONFIG, tmp_path)
    trial = OpenTrial(backend, tmp_path, None)
    list(trial.train(5))
    trial.save()
    assert saved_steps(tmp_path) == [4, 5]
    trial.close()
    assert saved_steps(tmp_path) == [4, 5]  # should the last turn out to be torn

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
    assert saved_steps(tmp_path) == [4, 5]
    assert not list((tmp_path / "ours").glob("checkpoint-*"))
    del board.running[7]
    tidying = Tidying(board)  # of the next driver
    tidying.after_commit()
    tidying.end()
    assert saved_steps(tmp_path) == []
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
