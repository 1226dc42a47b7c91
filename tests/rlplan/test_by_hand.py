"""`rlplan launch --print` says how a row of a plan or a sweep is given to a trainer."""

from typing import Any

import pytest
import yaml

from planner.store import open_store
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import Seeder


@pytest.fixture
def planned(run: Run) -> Run:
    assert run("propose", "--budget", "2000", "--pilot-fraction", "0").code == 0
    return run


def test_a_plan_s_row_is_printed_to_be_pasted(planned: Run) -> None:
    said = planned("launch", "plan-1", "--print", "verl")
    assert (said.code, said.err) == (0, "")
    lines = [line.removesuffix(" \\") for line in said.out.splitlines() if not line.startswith("#")]
    row = planned.json("rank", "plan-1")["ranking"][0]
    n, prompts, steps = (row[name] for name in ("rollouts_per_prompt", "prompts_per_batch", "update_steps"))
    assert lines == [
        f"actor_rollout_ref.rollout.n={n}",
        f"data.train_batch_size={prompts}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts}",
        f"actor_rollout_ref.actor.optim.lr={row['learning_rate']:.4g}",
        f"trainer.total_training_steps={steps}",
    ]


def test_json_has_the_row_and_the_arguments(planned: Run) -> None:
    third = planned.json("launch", "--print", "slime", "--row", "3")
    assert (third["of"], third["row"]["rank"], third["trainer"]) == ("plan-1", 3, "slime")
    assert f"--rollout-batch-size {third['row']['prompts_per_batch']}" in third["arguments"]


def test_a_sweep_without_an_answer_says_that_its_row_is_as_proposed(run: Run, seeder: Seeder) -> None:
    seeder.store.close()
    said = run("launch", "sweep-1", "--print", "verl")
    assert said.code == 0
    assert "\n# as proposed: the sweep recommends nothing yet\n" in said.out


def test_skypilot_is_asked_for_the_machines_of_the_final_run(planned: Run) -> None:
    said = planned("launch", "plan-1", "--print", "skypilot", "--row", "2")
    assert (said.code, said.err) == (0, "")
    asked = yaml.safe_load(said.out)
    with open_store("rlplan.db", read_only=True) as store:
        hardware = store.plan().hardware
    kind, gpus = asked["resources"]["accelerators"].split(":")
    assert (kind, int(gpus) * asked["num_nodes"]) == ("H100", hardware["gpus_per_trial"])
    assert asked["secrets"] == {"RAY_AUTH_TOKEN": None}
    assert 'rlplan launch plan-1 --row 2 --ray-address "$head"' in asked["run"]
    assert "\nEND\n" in asked["run"]


def test_kuberay_is_asked_for_as_many_gpus(planned: Run) -> None:
    said = planned.json("launch", "plan-1", "--print", "kuberay")["file"]
    asked: dict[str, Any] = yaml.safe_load(said)
    (workers,) = asked["spec"]["workerGroupSpecs"]
    (container,) = workers["template"]["spec"]["containers"]
    with open_store("rlplan.db", read_only=True) as store:
        hardware = store.plan().hardware
    assert (asked["apiVersion"], asked["kind"]) == ("ray.io/v1", "RayCluster")
    assert workers["replicas"] * container["resources"]["limits"]["nvidia.com/gpu"] == hardware["gpus_per_trial"]
    assert container["volumeMounts"] == [{"name": "sweeps", "mountPath": "/sweeps"}]
    assert "rlplan launch plan-1 --row 1 --ray-address auto" in said
