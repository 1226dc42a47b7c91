"""What rlplan knows of prime-rl: recipes, its configuration by recorded facts, its log, its checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.recipes import recipe_names
from runner.ports.trial import Machine, TaskChoice, TrialConfig
from runner.trainers.ability import degree
from runner.trainers.driver import Attempt
from runner.trainers.driving import opened_task
from runner.trainers.facts import facts_of
from runner.trainers.prime_rl.configuration import keys_of
from runner.trainers.prime_rl.driver import PrimeRlDriver
from runner.trainers.prime_rl.following import StepSource
from tests.runner.trainers.standins import attempt, driven


def trial(task: TaskChoice, recipe: str = "hard", **changes: Any) -> TrialConfig:
    return driven("prime-rl", task, recipe, **changes)


def told(config: TrialConfig, begun: Attempt) -> dict[str, Any]:
    launch = PrimeRlDriver().launch(config, begun, 0)
    assert launch is not None
    return dict(json.loads(launch.files["rl.json"]))


@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_that_is_accepted_becomes_keys_that_it_has(recipe: str, task: TaskChoice, tmp_path: Path) -> None:
    driver, config = PrimeRlDriver(), trial(task, recipe)
    if degree(driver.differences(config.recipe)) == "refused":
        with pytest.raises(InputError, match="prime-rl cannot train"):
            driver.check(config)
        return
    driver.check(config)
    facts_of("prime-rl").require(told(config, attempt(tmp_path)))
    with pytest.raises(InputError, match="--approximate"):  # it is always asynchronous, and divides by nothing
        driver.check(trial(task, recipe, approximate=False))


def test_n_and_b_and_the_rest_of_a_trial_are_told_in_its_words(task: TaskChoice, tmp_path: Path) -> None:
    keys = told(trial(task, "hard"), attempt(tmp_path))

    orchestrator, trainer = keys["orchestrator"], keys["trainer"]
    assert (orchestrator["batch_size"], orchestrator["group_size"]) == (24, 4)  # its batch is in rollouts
    assert keys["max_steps"] == 8
    assert keys["deployment"] == {"type": "single_node", "gpus_per_node": 4, "num_train_gpus": 2, "num_infer_gpus": 2}
    assert orchestrator["max_off_policy_steps"] == 1
    assert orchestrator["train"]["filter_zero_advantages"] is False
    assert orchestrator["train"]["sampling"] == {"temperature": 1.0, "max_completion_tokens": 8}
    assert (orchestrator["eval"]["interval"], orchestrator["eval"]["group_size"]) == (2, 2)
    assert trainer["scheduler"] == {"type": "linear", "warmup_steps": 10, "decay_steps": 0}
    assert trainer["optim"]["lr"] == 1e-6
    assert trainer["loss"]["dppo_mask_low"] == 0.2
    assert orchestrator["renderer"] == {"name": "default"}  # a local model is in none of its tables


def test_without_a_warm_up_the_rate_is_constant_and_refilling_is_a_gate(task: TaskChoice, tmp_path: Path) -> None:
    keys = told(trial(task, "dapo", warmup_steps=0), attempt(tmp_path))
    assert keys["trainer"]["scheduler"] == {"type": "constant"}
    assert keys["orchestrator"]["train"]["source"][0]["curriculum"]["gates"]["signal"]["type"] == "advantage_range"


def test_two_trials_on_a_host_have_other_ports(task: TaskChoice, tmp_path: Path) -> None:
    first, second = (told(trial(task), attempt(tmp_path, gpus=(gpus,))) for gpus in ("0,1", "2,3"))

    def ports(keys: dict[str, Any]) -> set[int]:
        inference, orchestrator = keys["inference"], keys["orchestrator"]
        own = {inference["server"]["port"], inference["backend_port"], inference["vllm"]["data_parallel_rpc_port"]}
        return own | {orchestrator["env_server_base_port"], orchestrator["env_server_base_port"] + 1}

    assert len(ports(first) | ports(second)) == 10
    assert first["orchestrator"]["model"]["client"]["base_url"].endswith(f":{first['inference']['server']['port']}/v1")


def test_it_goes_on_from_the_checkpoint_that_is_whole_and_not_from_the_latest(task: TaskChoice, tmp_path: Path) -> None:
    for step, parts in {2: ("trainer/.metadata", "orchestrator/progress.pt"), 4: ("orchestrator/progress.pt",)}.items():
        for part in parts:
            path = tmp_path / f"run/checkpoints/step_{step}" / part
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    found = PrimeRlDriver().checkpoints(trial(task), tmp_path)
    assert [each.step for each in found] == [2]

    keys = told(trial(task), attempt(tmp_path, number=2, from_step=2, checkpoint=found[0].path))
    assert keys["resume"] == {"step": 2}
    assert keys["clean"] is False
    assert told(trial(task), attempt(tmp_path, number=2))["clean"] is True  # a used folder is refused


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"machine": Machine(gpus=1)}, "Use at least 2 GPUs"),
        ({"machine": Machine(gpus=4, nodes=2)}, "by Slurm alone"),
        ({"options": {"train_gpus": 4}}, "of which 4 train"),
        ({"growth": "4x"}, "batch is constant"),
        ({"options": {"settings": {"trainer.optim.lr": 1.0}}}, "rlplan sets that itself"),
        ({"options": {"settings": {"trainer.model.atn": "x"}}}, "did you mean 'trainer.model.attn'"),
        ({"task": TaskChoice(name="sum-easy")}, "no chat template"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], named: str, task: TaskChoice) -> None:
    with pytest.raises(InputError, match=named):
        PrimeRlDriver().check(trial(**{"task": task, **changes}))


def test_a_mistyped_key_of_ours_is_caught(task: TaskChoice, tmp_path: Path) -> None:
    config = trial(task)
    keys = [key for key in keys_of(config, opened_task(config), attempt(tmp_path)) if "renderer" not in key]
    let_through = [key for key in keys if facts_of("prime-rl").knows(f"{key}x")]
    assert keys
    assert let_through == []


def test_a_validation_that_overlaps_the_training_is_of_the_weights_that_it_names(tmp_path: Path) -> None:
    orchestrator, trainer = tmp_path / "o.jsonl", tmp_path / "t.jsonl"
    source = StepSource(attempt(tmp_path, to_step=6), (orchestrator, trainer), tmp_path / "rollouts", 4, "validation")

    def say(path: Path, step: int, at: float, **row: float) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"step": step, "time": at, **row}) + "\n")

    def trained(step: int) -> None:
        say(orchestrator, step, 100.0 + step, **{"time/pack": 0.1, "time/step": 1.0, "progress/rollouts": 24})
        say(trainer, step, 100.5 + step, **{"loss/mean": 0.5, "time/forward_backward": 0.2})

    def evaluated(step: int, version: int, score: float) -> None:
        say(orchestrator, step, 100.7 + step, **{"eval/validation/policy_version": version})
        say(orchestrator, step, 100.7 + step, **{"eval/validation/all/agent/avg@2": score})

    trained(1)
    assert source.read() == []  # the base model is being scored
    row = {"eval/validation/policy_version": 0, "eval/validation/all/agent/avg@2": 0.25}
    say(orchestrator, 1, 100.9, **row)
    assert [(each.step, each.score) for each in source.read()] == [(0, None), (0, 0.25)]
    for step in (2, 3, 4):
        trained(step)
    assert source.read() == []  # the validation of step 4 may be of the weights of step 1
    say(orchestrator, 4, 104.7, **{"eval/validation/policy_version": 2, "eval/validation/all/agent/avg@2": 0.5})
    readings = source.read()
    assert [(each.step, each.score) for each in readings] == [(1, None), (2, None), (2, 0.5), (3, None), (4, None)]
    assert readings[0].at_seconds == 101.5
    assert readings[0].metrics["loss"] == 0.5
    assert readings[0].seconds == {"update": 0.2}


def test_a_refused_configuration_is_told_in_its_words() -> None:
    tail = "Traceback\nFileExistsError: Run directory 'x/run' already contains artifacts from a previous run."
    assert PrimeRlDriver().classify(1, tail) == (
        "input",
        f"prime-rl refused its configuration: {tail.splitlines()[-1]}",
    )
    assert PrimeRlDriver().classify(1, "RuntimeError: x") is None
