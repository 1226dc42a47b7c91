"""When verl is to score a checkpoint again, and what its log says at first; verl itself is not needed."""

import json
from pathlib import Path

import pytest

from runner.ports.backend import Point
from runner.ports.trial import TaskChoice
from runner.trainers.driver import Attempt
from runner.trainers.verl import job
from runner.trainers.verl.driver import DRIVER
from runner.trainers.verl.start import rows
from runner.training.trial import write_points
from tests.runner.trainers.standins import attempt, launched, trial

ROLLOUT = "actor_rollout_ref.rollout"


def told(one: Attempt) -> dict[str, str]:
    return dict(word.split("=", 1) for word in json.loads(launched(trial("verl"), one).files["overrides.json"]))


def test_a_resumed_trial_is_not_validated_again_unless_its_score_was_lost(tmp_path: Path) -> None:
    again = attempt(tmp_path, number=2, from_step=4, to_step=8, checkpoint=tmp_path / "checkpoints/global_step_4")

    fresh, lost = told(attempt(tmp_path)), told(again)
    (tmp_path / "attempt-1.metrics.jsonl").write_text('{"step": 4, "data": {"actor/pg_loss": 0.5}}\n')
    known = told(again)

    assert fresh["trainer.val_before_train"] == "true"
    assert lost["trainer.val_before_train"] == "true"  # verl saves before it validates: the line was never written
    assert known["trainer.val_before_train"] == "false"
    assert known["trainer.resume_from_path"].endswith("global_step_4")
    assert known["actor_rollout_ref.rollout.seed"] != fresh["actor_rollout_ref.rollout.seed"]


def test_of_a_copied_checkpoint_the_copied_points_tell_its_score(tmp_path: Path) -> None:
    copied = attempt(tmp_path / "trainer", from_step=4, checkpoint=tmp_path / "trainer" / "global_step_4")
    write_points(tmp_path, [Point(4, 96, 0, 1.0, 0.1, score=0.5)])
    assert told(copied)["trainer.val_before_train"] == "false"
    write_points(tmp_path, [Point(2, 48, 0, 1.0, 0.1, score=0.5), Point(4, 96, 0, 1.0, 0.1)])
    assert told(copied)["trainer.val_before_train"] == "true"


@pytest.mark.parametrize(("cores", "gpus", "each"), [(192, 4, 8), (192, 8, 8), (24, 4, 6), (24, 8, 3), (2, 4, 2)])
def test_the_processes_that_ask_and_score_are_as_many_as_the_trials_cores_bear(
    cores: int, gpus: int, each: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "cpu_cores", lambda: cores)
    monkeypatch.setattr(job, "gpus_here", lambda: gpus)
    keys = told(attempt(tmp_path))  # on 4 GPUs of a node
    assert keys["actor_rollout_ref.rollout.agent.num_workers"] == keys["reward.num_workers"] == str(each)


def test_start_up_is_over_when_it_opens_its_log(tmp_path: Path) -> None:
    one = attempt(tmp_path, number=3, from_step=4)
    (source,) = DRIVER.sources(trial("verl"), one)
    assert source.read() == []
    one.metrics.touch()
    assert [(each.step, each.score) for each in source.read()] == [(4, None)]


def test_each_of_its_steps_is_a_batch_which_may_be_several_updates(tmp_path: Path) -> None:
    config = trial("verl", "gspo")
    one = attempt(tmp_path, from_step=8, to_step=14, checkpoint=tmp_path / "checkpoints/global_step_2")
    files = launched(config, one).files
    one.metrics.write_text('{"step": 3, "data": {"actor/pg_loss": 0.5, "val-core/rlplan/acc/mean@2": 0.25}}\n')
    (source,) = DRIVER.sources(config, one)
    assert [(each.step, each.score) for each in source.read()] == [(8, None), (12, 0.25)]
    assert files["checkpoints/latest_checkpointed_iteration.txt"] == "2"
    assert "trainer.total_training_steps=4" in files["overrides.json"]


def test_tools_of_verls_agent_loop_pass_through_with_what_each_problem_gives_them(
    task: TaskChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"prompt": "what is 2 + 2", "answer": "4", "tools_kwargs": {"run": {"create_kwargs": {"seed": 1}}}}
    lines = [json.dumps({**row, "prompt": f"{row['prompt']} + {number}"}) + "\n" for number in range(30)]
    (tmp_path / "tools.jsonl").write_text("".join(lines))
    loop = {
        f"{ROLLOUT}.multi_turn.enable": True,
        f"{ROLLOUT}.multi_turn.function_tool_path": "/tools.py",
        f"{ROLLOUT}.agent.default_agent_loop": "tool_agent",
    }
    own = task.model_copy(update={"name": str(tmp_path / "tools.jsonl")})
    config = trial("verl", options={"settings": loop}, task=own)
    files = launched(config, attempt(tmp_path)).files
    assert {f"{ROLLOUT}.multi_turn.enable=true", f"{ROLLOUT}.agent.default_agent_loop=tool_agent"} <= set(
        json.loads(files["overrides.json"])
    )
    for name in ("reward.json", "order.json", "problems.jsonl"):
        (tmp_path / name).write_text(files[name])
    monkeypatch.chdir(tmp_path)
    train, validation = rows()
    assert all(each["extra_info"]["tools_kwargs"] == row["tools_kwargs"] for each in (train[0], *validation))
