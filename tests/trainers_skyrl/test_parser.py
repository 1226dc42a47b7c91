"""SkyRL's own parser, checks and registries on what rlplan writes."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from planner.recipes import load_recipe, recipe_names
from runner.ports.trial import Machine, TaskChoice, TrialConfig
from runner.trainers.capabilities import degree
from runner.trainers.keys import words
from runner.trainers.launch import opened_task
from runner.trainers.skyrl.driver import DRIVER
from runner.trainers.skyrl.start import configured
from tests.runner.trainers.standins import attempt, trial

ACCEPTED = [name for name in recipe_names() if degree(DRIVER.differences(load_recipe(name))) != "refused"]
TWO_NODES = Machine(gpus=8, nodes=2, device="cuda", engine="vllm")


def given(folder: Path, recipe: str = "plain", start: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    config: TrialConfig = DRIVER.as_done(trial("skyrl", recipe, **changes))
    keys: dict[str, Any] = DRIVER.job(config, opened_task(config), attempt(folder, **(start or {}))).keys
    return keys


def parsed(keys: dict[str, Any]) -> dict[str, Any]:
    return asdict(configured({"words": words(keys, "json")}))


@pytest.mark.parametrize("recipe", [*ACCEPTED, "plain"])
def test_every_key_of_an_accepted_recipe_is_skyrls_and_arrives(recipe: str, tmp_path: Path) -> None:
    resumed = {"from_step": 16, "to_step": 32, "checkpoint": tmp_path / "global_step_1"}
    for start in ({}, resumed):
        keys = given(tmp_path, recipe, start)
        config = parsed(keys)
        for name, value in keys.items():
            assert reduce(lambda node, part: node[part], name.split("."), config) == value, name


def test_adapters_and_sampling_arrive(tmp_path: Path) -> None:
    task = TaskChoice(name="sum-easy", temperature=0.9, top_p=0.8, validation_top_p=0.95)
    keys = given(tmp_path, machine=TWO_NODES.model_copy(update={"lora_rank": 32}), task=task)
    config = parsed(keys)
    held = {name: reduce(lambda node, part: node[part], name.split("."), config) for name in keys}
    assert held == keys
    assert held["trainer.policy.model.lora.rank"] == 32


@pytest.mark.parametrize(
    ("options", "machine"),
    [
        ({"vllm_gpus": 2}, Machine(gpus=10, device="cuda", engine="vllm")),
        ({"vllm_gpus": 4, "tensor_parallel": 2}, TWO_NODES),
        ({"settings": {"trainer.gradient_checkpointing": False}}, TWO_NODES),
    ],
)
@pytest.mark.parametrize(("recipe", "apart"), [("grpo", 0), ("magistral", 4)])
def test_every_layout_passes_its_checks(
    recipe: str, apart: int, options: dict[str, Any], machine: Machine, tmp_path: Path
) -> None:
    placed = parsed(given(tmp_path, recipe, options=options, machine=machine))["trainer"]["placement"]
    training = machine.gpus - options.get("vllm_gpus", apart)
    assert placed["policy_num_nodes"] * placed["policy_num_gpus_per_node"] == training
    assert placed["colocate_all"] is (training == machine.gpus)


@pytest.mark.parametrize(
    ("mistyped", "named"),
    [
        ({"trainer.eval_intervall": 1}, "eval_intervall"),
        ({"generator.n_sample_per_prompt": 1}, "n_sample_per_prompt"),
        ({"trainer.fully_async.max_staleness": 1}, "max_staleness"),
        ({"trainer.algorithm.policy_loss_type": "grpo"}, "invalid policy_loss_type"),
        ({"trainer.algorithm.loss_reduction": "prompt"}, "invalid loss_reduction"),
        ({"trainer.policy_mini_batch_size": 3}, "should be divisible"),
    ],
)
def test_a_mistyped_key_or_value_is_caught(mistyped: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, AssertionError), match=named):
        parsed({**given(tmp_path), **mistyped})


def test_what_skyrl_refuses_is_what_the_rehearsal_says() -> None:
    def said(**settings: int) -> list[str]:
        own = {"name": "skyrl", "python": sys.executable, "options": {"settings": settings}, "approximate": True}
        return list(DRIVER.rehearse(trial("skyrl", trainer=own)))

    assert said() == []
    (refused,) = said(**{"trainer.nonsense": 1})
    assert "nonsense" in refused


@pytest.fixture(autouse=True)
def _no_traces() -> Iterator[None]:
    """SkyRL's parser exchanges Python's TypedDict, before Python 3.12."""
    import typing

    before = typing.TypedDict
    yield
    typing.TypedDict = before
