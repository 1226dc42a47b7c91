"""One thing has one number on every page: plans, prices, checks and what trainers are given are compared."""

from pathlib import Path
from typing import Any

import pytest

from planner.config import Layer, resolve
from planner.store.schema import Plan
from rlplan.actions.proposing import draft_plan
from runner.sweep.planning import SweepChoice, sweep_spec
from tests.rlplan.conftest import Run


def planned(folder: Path, **sections: dict[str, Any]) -> Plan:
    """Return a plan that is not stored; its sections are those of rlplan.toml."""
    return draft_plan(resolve([Layer("test", {"budget": {"gpu_hours": 5000.0}, **sections})]), str(folder / "none.db"))


@pytest.mark.parametrize("save_seconds", [None, 300.0])
def test_a_trainer_saves_as_often_as_its_plan_has_priced(save_seconds: float | None, tmp_path: Path) -> None:
    given = {} if save_seconds is None else {"save_seconds": save_seconds}
    plan = planned(tmp_path, trainer={"name": "standin", **given}, hardware={"gpus": 8})
    priced = plan.hardware["save_every_seconds"]
    assert priced == save_seconds or (save_seconds is None and priced > 600)
    trainer = sweep_spec(plan, SweepChoice(folder=tmp_path)).training.trainer
    assert trainer is not None
    assert trainer.saves_every == priced


VERL = """\
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files={data} data.val_files=test.parquet \\
    data.train_batch_size={batch} actor_rollout_ref.actor.ppo_mini_batch_size={mini} data.max_prompt_length=256 \\
    data.max_response_length={cap} actor_rollout_ref.model.path={model} actor_rollout_ref.rollout.n={n} \\
    actor_rollout_ref.rollout.val_kwargs.n=4 actor_rollout_ref.actor.optim.lr=1e-6 \\
    trainer.n_gpus_per_node={gpus} trainer.nnodes=1 trainer.test_freq=10 {rest}
"""


def script(**values: Any) -> str:
    """Return a script that starts verl."""
    usual = {"data": "train.parquet", "cap": 8192, "model": "Qwen/Qwen3-8B", "gpus": 8, "n": 8, "batch": 64, "rest": ""}
    return VERL.format(**usual | {"mini": values.get("batch", 64)} | values)


def test_the_first_screen_of_a_plan_says_which_facts_were_guessed_and_what_is_lost(run: Run) -> None:
    text = " ".join(run("propose", "--budget", "5000", "--gpus", "8").out.split())
    assert "6,000 prompts (--prompts)" in text
    assert "47 % of responses are cut off. Saves take 2 % of the time." in text
    known = ("--prompts", "17000", "--mean-response-tokens", "2000")
    text = " ".join(run("propose", "--budget", "5000", "--gpus", "8", *known).out.split())
    assert "(--prompts)" not in text
    assert "cut off" not in text
    assert run.json("propose", "--budget", "5000", *known)["workload"]["prompt_set_size"] == 17000


def test_a_run_of_months_by_the_name_of_its_data_is_flagged_with_the_flag_that_says_how_many_there_are(
    run: Run, tmp_path: Path
) -> None:
    text = script(data="dapo-math-17k.parquet", rest="trainer.total_epochs=1 trainer.save_freq=100")
    (tmp_path / "run.sh").write_text(text, encoding="utf-8")
    ran = run("check", "run.sh")
    assert {"length": "--prompts", "disk": "--prompts"}.items() <= flags_of(run).items()
    assert "1,790,000 prompts, by the name of the data. A guess: give --prompts." in " ".join(ran.out.split())
    assert not flags_of(run, "--prompts", "17000").keys() & {"length", "disk"}


def flags_of(run: Run, *words: str) -> dict[str, str | None]:
    """Return what is flagged of the script, and what would settle each."""
    document = run("check", "run.sh", *words, "--format", "json").json
    return {flag["name"]: flag["asks"] for flag in document["red_flags"] + document["likely_flags"]}


def test_what_a_plan_costs_is_what_it_spends(run: Run) -> None:
    few = run.json("propose", "--budget", "5000", "--gpus", "8", "--prompts", "2000")
    assert few["spent_gpu_hours"] < few["budget_gpu_hours"] - 100
    ran = run("propose", "--budget", "5000", "--gpus", "8", "--prompts", "2000")
    dollars = few["spent_gpu_hours"] * few["hardware"]["dollars_per_gpu_hour"]
    assert f"${dollars:,.0f}." in ran.out
    used = few["spent_gpu_hours"] - few["pilot_gpu_hours"]
    assert f"uses {used:,.0f} GPU-hours" in " ".join(ran.out.split())
