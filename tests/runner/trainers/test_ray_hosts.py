"""A trial's further machines: what ends with their holder, who is refused, and how a Ray of its own is asked for.

With a real Ray they are tried in tests/faults/test_many_nodes.py.
"""

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.processes import SWEEP_TAG, WORKER_TAG, sweep_orphans, tagged
from runner.trainers.command.driver import driver
from runner.trainers.driver import Attempt, Launch
from runner.trainers.hosts import LocalHost
from runner.trainers.own_ray import in_own_ray
from runner.trainers.ray_hosts import hosts_of_this_trial

CUT_OFF = """
import sys, time
from pathlib import Path
from runner.trainers import ray_hosts
ray_hosts._SILENT = 1
folder = Path(sys.argv[2])
holder = ray_hosts.Holder({"RLPLAN_SWEEP": sys.argv[1], "RLPLAN_WORKER": "a"})
holder.start(("sh", "-c", "setsid sleep 60 & echo up; exec sleep 60"), {}, folder, folder / "log")
time.sleep(60)
"""


def test_a_holder_that_hears_nothing_of_its_worker_ends_itself_and_all_that_it_has_started(tmp_path: Path) -> None:
    tag = f"rlplan-test-{uuid4().hex}"
    subprocess.run([sys.executable, "-c", CUT_OFF, tag, str(tmp_path)], timeout=50, check=True)
    left = tagged({f"{SWEEP_TAG}={tag}", f"{WORKER_TAG}=a"})
    sweep_orphans(tag)
    assert (tmp_path / "log").read_text() == "up\n"
    assert not left


def test_a_trial_of_several_nodes_that_nobody_has_placed_is_refused() -> None:
    (here,) = hosts_of_this_trial(1)
    assert isinstance(here, LocalHost)
    with pytest.raises(InputError, match=r"for 2 nodes, and it was given 1.*--ray-address"):
        hosts_of_this_trial(2)


def test_the_command_of_a_trainer_on_ray_runs_on_the_head_alone(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, 3, 0, 10, None, ("10.0.0.1", "10.0.0.2"))
    launch = Launch(("train", "--fast"), {"a.yaml": "x"}, {"B": "c"})
    head, other = (in_own_ray(launch, attempt, rank, "/opt/python", 8) for rank in (0, 1))
    assert head.argv[:2] == other.argv[:2] == ("/opt/python", str(tmp_path / "in_own_ray.py"))
    assert (head.argv[3:], other.argv[3:]) == (("train", "--fast"), ())
    assert [json.loads(one.argv[2])["address"] for one in (head, other)] == ["10.0.0.1", "10.0.0.2"]
    assert len({json.loads(one.argv[2])["meeting"] for one in (head, other)}) == 1
    assert {*head.files} == {"a.yaml", "in_own_ray.py"}
    assert head.environment == {"B": "c"}


def test_a_file_asks_for_a_ray_of_the_trials_own(tmp_path: Path) -> None:
    command = "train {rollouts_per_prompt} {prompts_per_batch} {learning_rate} {to_step}"
    options = {"here": "/", "command": command, "resume": "", "own_ray": True}
    config = TrialConfig(
        task=TaskChoice(name="sum-easy", reward="exact"),
        recipe=Recipe(name="plain"),
        rollouts_per_prompt=4,
        prompts_per_batch=4,
        learning_rate=0.5,
        validation=ValidationPlan(problems=50, samples=4, every_rollouts=32),
        machine=Machine(gpus=16, nodes=2),
        trainer=TrainerChoice(name="command", python="/opt/python", options=options),
    )
    driver(config).check(config)
    attempt = Attempt(tmp_path, 1, 0, 10, None, ("10.0.0.1", "10.0.0.2"), ("0,1", "2,3"))
    head, other = (driver(config).launch(config, attempt, rank) for rank in (0, 1))
    assert head is not None
    assert other is not None
    assert head.argv[:1] + head.argv[3:] == ("/opt/python", "train", "4", "4", "0.5", "10")
    assert json.loads(other.argv[2])["gpus"] == 8
    assert other.environment == {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert config.trainer is not None
    without = config.model_copy(update={"trainer": config.trainer.model_copy(update={"python": None})})
    with pytest.raises(InputError, match="own_ray = true needs python"):
        driver(without).check(without)
