"""What rlplan knows of verl: what it can run, what it is told, what it says; verl itself is not needed."""

import json
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from planner.recipes import load_recipe
from planner.recipes.schema import Recipe
from runner.ports.backend import Point
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.driver import Attempt
from runner.trainers.verl.configuration import TRACKER
from runner.trainers.verl.driver import VerlDriver
from runner.training.trial import write_points

GPUS = Machine(device="cuda", gpus=8, nodes=2)  # in float32: a head in another format would be a difference


def trial(recipe: Recipe | str = "hard", options: dict[str, object] | None = None, **changes: object) -> TrialConfig:
    given = {
        "task": TaskChoice(name="sum-easy"),
        "recipe": load_recipe(recipe) if isinstance(recipe, str) else recipe,
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 6,
        "learning_rate": 1e-4,
        "validation": ValidationPlan(problems=4, samples=2, every_rollouts=50),
        "machine": GPUS,
        "trainer": TrainerChoice(name="verl", python="/opt/verl/bin/python", options=options or {}),
    }
    return TrialConfig.model_validate({**given, **changes})


def attempt(folder: Path, **changes: Any) -> Attempt:
    hosts = {"hosts": ("10.0.0.1", "10.0.0.2"), "gpus": ("0,1,2,3", "0,1,2,3")}
    given = {"folder": folder, "number": 1, "from_step": 0, "to_step": 5, "checkpoint": None, **hosts}
    return Attempt(**{**given, **changes})


def told(config: TrialConfig, one: Attempt) -> dict[str, str]:
    launch = VerlDriver().launch(config, one, 0)
    assert launch is not None
    return dict(word.split("=", 1) for word in json.loads(launch.files["overrides.json"]))


def test_one_update_is_made_of_each_batch_and_its_length_depends_on_no_schedule(tmp_path: Path) -> None:
    VerlDriver().check(trial())
    keys = told(trial(), attempt(tmp_path))

    assert keys["data.train_batch_size"] == keys["actor_rollout_ref.actor.ppo_mini_batch_size"] == "6"  # prompts
    assert keys["actor_rollout_ref.rollout.n"] == "4"
    assert keys["algorithm.adv_estimator"] == "rlplan"  # not its default, gae
    assert (keys["trainer.total_training_steps"], keys["trainer.test_freq"]) == ("5", "2")
    assert int(keys["trainer.total_epochs"]) > 1000
    assert keys["actor_rollout_ref.actor.optim.lr_warmup_steps"] == "10"
    assert keys["actor_rollout_ref.actor.optim.lr_warmup_steps_ratio"] == "0.0"
    assert keys["algorithm.rollout_correction.rollout_is"] == "token"
    assert (keys["trainer.nnodes"], keys["trainer.n_gpus_per_node"]) == ("2", "4")


def test_each_attempt_has_a_ray_and_a_log_of_its_own(tmp_path: Path) -> None:
    head, member = (VerlDriver().launch(trial(), attempt(tmp_path, number=2), rank) for rank in (0, 1))

    assert head is not None
    assert member is not None
    assert head.argv[:2] == member.argv[:2] == ("/opt/verl/bin/python", str(tmp_path / "in_own_ray.py"))
    assert head.argv[-2:] == ("/opt/verl/bin/python", "start.py")
    assert head.environment["VERL_FILE_LOGGER_PATH"] == str(tmp_path / "attempt-2.metrics.jsonl")
    assert head.environment["VERL_USE_EXTERNAL_MODULES"] == member.environment["VERL_USE_EXTERNAL_MODULES"]
    assert [name for name in member.files if not name.startswith("in_own_ray")] == []


def test_a_resumed_trial_is_not_validated_again_unless_its_score_was_lost(tmp_path: Path) -> None:
    again = attempt(tmp_path, number=2, from_step=4, to_step=8, checkpoint=tmp_path / "checkpoints/global_step_4")

    lost = told(trial(), again)
    (tmp_path / "attempt-1.metrics.jsonl").write_text('{"step": 4, "data": {"actor/pg_loss": 0.5}}\n')
    known = told(trial(), again)

    assert told(trial(), attempt(tmp_path))["trainer.val_before_train"] == "true"
    assert lost["trainer.val_before_train"] == "true"  # verl saves before it validates: the line was never written
    assert known["trainer.val_before_train"] == "false"
    assert known["trainer.resume_mode"] == "resume_path"
    assert known["trainer.resume_from_path"].endswith("global_step_4")
    assert known["actor_rollout_ref.rollout.seed"] != told(trial(), attempt(tmp_path))["actor_rollout_ref.rollout.seed"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"machine": Machine()}, "servers that need GPUs"),
        ({"growth": "4x"}, "growth with --trainer verl: verl's batch is constant"),
        ({"options": {"tensor_parallel": 3}}, "tensor_parallel = 3 on 4 GPUs of a node"),
        ({"options": {"rolout": "vllm"}}, "unknown key 'rolout'.*rollout"),
        ({"options": {"settings": {"data.train_batch_size": 1024}}}, "data.train_batch_size: rlplan sets that itself"),
        ({"recipe": "scalerl"}, "staleness_bound = 8, but it generates, then trains.*--approximate"),
        ({"recipe": "gspo"}, "updates_per_batch = 4, but it saves after whole batches"),
        ({"machine": GPUS.model_copy(update={"weights": "bfloat16"})}, "fp32_head = true, but its head"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        VerlDriver().check(trial(**changes))


def test_of_a_copied_checkpoint_the_copied_points_tell_its_score(tmp_path: Path) -> None:
    copied = attempt(tmp_path / "trainer", from_step=4, checkpoint=tmp_path / "trainer" / "global_step_4")
    write_points(tmp_path, [Point(4, 96, 0, 1.0, 0.1, score=0.5)])
    assert told(trial(), copied)["trainer.val_before_train"] == "false"
    write_points(tmp_path, [Point(2, 48, 0, 1.0, 0.1, score=0.5), Point(4, 96, 0, 1.0, 0.1)])
    assert told(trial(), copied)["trainer.val_before_train"] == "true"


def test_what_changes_nothing_of_the_result_may_be_set(tmp_path: Path) -> None:
    settings = {"reward.num_workers": 4, "actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space": 8}
    keys = told(trial(options={"settings": settings}), attempt(tmp_path))
    assert (keys["reward.num_workers"], keys["actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space"]) == ("4", "8")


def test_a_torn_checkpoint_is_passed_over_and_so_is_one_beyond_the_tracker(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        (tmp_path / f"checkpoints/global_step_{step}/actor").mkdir(parents=True)
    for step in (2, 4):
        (tmp_path / f"checkpoints/global_step_{step}/data.pt").touch()
    steps = [each.step for each in VerlDriver().checkpoints(trial(), tmp_path)]
    (tmp_path / TRACKER).write_text("2")

    assert steps == [4, 2]
    assert [each.step for each in VerlDriver().checkpoints(trial(), tmp_path)] == [2]


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        ("Could not override 'data.trian_batch_size'.\nKey 'trian_batch_size' is not in struct", "input"),
        ("ValueError: Total available GPUs 0 is less than total desired GPUs 1", "input"),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "out-of-memory"),
        ("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(", "hang"),
        ("Traceback (most recent call last):", None),
    ],
)
def test_its_words_of_failure_are_known(tail: str, kind: str | None) -> None:
    known = VerlDriver().classify(1, tail)
    assert (known[0] if known else None) == kind


def test_start_up_is_over_when_it_opens_its_log(tmp_path: Path) -> None:
    one = attempt(tmp_path, number=3, from_step=4)
    (source,) = VerlDriver().sources(trial(), one)
    before = source.read()
    one.metrics.touch()

    assert before == []
    assert [(each.step, each.score) for each in source.read()] == [(4, None)]
