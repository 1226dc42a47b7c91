"""OpenRLHF's own parser and assertions on what rlplan writes; what they do not need is imagined, so no GPU is asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.config.trainer import TrainerChoice
from planner.recipes import load_recipe, recipe_names
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.capabilities import degree
from runner.trainers.launch import opened_task
from runner.trainers.openrlhf.driver import DRIVER
from tests.runner.trainers.standins import attempt, trial

ACCEPTED = [name for name in recipe_names() if degree(DRIVER.differences(load_recipe(name))) != "refused"]
TWO_NODES = Machine(gpus=8, nodes=2, device="cuda", engine="vllm")


def here(recipe: str = "plain", **changes: Any) -> TrialConfig:
    config = trial("openrlhf", recipe, **changes)
    options = config.trainer.options if config.trainer is not None else {}
    choice = TrainerChoice(name="openrlhf", python=sys.executable, options=options, approximate=True)
    return DRIVER.as_done(config.model_copy(update={"trainer": choice}))


def rehearsed(config: TrialConfig, folder: Path, *changed: tuple[str, str], **start: Any) -> tuple[int, str]:
    """Return how OpenRLHF takes the arguments of an attempt, with words exchanged, and what it says."""
    given = DRIVER.files(DRIVER.job(config, opened_task(config), attempt(folder, **start)))
    run = json.loads(given["run.json"])
    for old, new in changed:
        assert old in run["words"]
        run["words"] = [new if word == old else word for word in run["words"]]
    (folder / "start.py").write_text(given["start.py"])
    (folder / "run.json").write_text(json.dumps(run))
    argv = [sys.executable, "start.py", "--rehearse"]
    ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("recipe", [*ACCEPTED, "plain"])
def test_every_flag_of_an_accepted_recipe_is_openrlhfs_and_arrives(recipe: str, tmp_path: Path) -> None:
    config = here(recipe)
    code, said = rehearsed(config, tmp_path, from_step=4, checkpoint=tmp_path / "global_step1")
    assert code == 0, said
    parsed = json.loads(said.split("rlplan parsed: ")[1])
    start = attempt(tmp_path, from_step=4, checkpoint=tmp_path / "global_step1")
    for name, value in DRIVER.job(config, opened_task(config), start).keys.items():
        assert parsed[name] == value, name


@pytest.mark.parametrize(
    ("options", "machine"),
    [
        ({"vllm_gpus": 2}, Machine(gpus=10, device="cuda", engine="vllm")),
        ({"vllm_gpus": 4, "tensor_parallel": 2}, TWO_NODES),
        ({"settings": {"ds.packing_samples": True, "ds.zero_stage": 3}}, TWO_NODES),
    ],
)
@pytest.mark.parametrize("recipe", ["hard", "magistral"])
def test_every_layout_passes_its_assertions(recipe: str, options: dict[str, Any], machine: Machine) -> None:
    assert DRIVER.rehearse(here(recipe, options=options, machine=machine)) == []


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (("--eval.steps", "--eval.step"), "unrecognized arguments: --eval.step"),  # argparse would complete it
        (("--rollout.n_samples_per_prompt", "--n_samples_per_prompt"), "unrecognized arguments"),  # its older name
        (("dr_grpo", "grpo"), "invalid choice: 'grpo'"),
        (("token-mean", "token_mean"), "invalid choice: 'token_mean'"),
    ],
)
def test_a_mistyped_flag_or_value_is_caught(changed: tuple[str, str], named: str, tmp_path: Path) -> None:
    plain = here().recipe
    objective = plain.objective.model_copy(update={"aggregation": "token"})
    code, said = rehearsed(here(recipe=plain.model_copy(update={"objective": objective})), tmp_path, changed)
    assert code != 0
    assert named in said


def test_a_mistyped_flag_of_its_asynchronous_trainer_is_caught(tmp_path: Path) -> None:
    code, said = rehearsed(here("magistral"), tmp_path, ("--train.async_queue_size", "--train.async_queue"))
    assert code != 0
    assert "unrecognized arguments: --train.async_queue" in said


def test_what_openrlhf_refuses_is_what_the_rehearsal_says() -> None:
    (said,) = DRIVER.rehearse(here(options={"settings": {"data.nonsense": 1}}))
    assert "unrecognized arguments: --data.nonsense 1" in said
