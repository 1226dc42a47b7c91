"""Plans from Python, made and stored."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import rlplan
from rlplan.commands.propose import propose as command
from tests.rlplan.api.conftest import columns_of
from tests.rlplan.conftest import Run

OF_THE_CONTRACT = {
    *("rank", "rollouts_per_prompt", "prompts_per_batch", "update_steps", "pilot_steps", "gpu_hours_per_step"),
    *("pilot_gpu_hours", "learning_rate", "epochs", "signal_fraction", "expected_score", "notes"),
}


def test_the_arguments_are_the_flags() -> None:
    flags = set(inspect.signature(command).parameters) - {"format", "top"}
    assert set(inspect.signature(rlplan.propose).parameters) == flags


def test_a_plan_is_the_document_of_the_command(run: Run) -> None:
    plan = rlplan.propose(budget=5000, model="qwen3-8b", gpu="h100", gpus=64)
    flags = ("--budget", "5000", "--model", "qwen3-8b", "--gpu", "h100", "--gpus", "64", "--format", "json")
    printed = json.loads(run("propose", *flags).out)
    said = json.loads(json.dumps(plan.to_dict()))
    for document in (printed, said):
        document.pop("plan")
        for each in document["assumptions"]:  # where a value comes from: a flag there, an argument here
            each.pop("source")
    assert said == printed


def test_a_plan_is_typed_and_keeps_its_promises() -> None:
    plan = rlplan.propose(budget=5000, task=None, gpus=32)
    assert (plan.name, plan.budget_gpu_hours, plan.hardware["gpus"]) == ("plan-1", 5000, 32)
    assert plan.pilot_gpu_hours + plan.final_gpu_hours <= 5000
    assert sum(each.pilot_gpu_hours for each in plan.candidates) <= plan.pilot_gpu_hours
    assert plan.best is plan.candidates[0]
    assert plan.best.rank == 1
    assert plan.best.expected_score is not None
    assert plan.best.expected_score.low < plan.best.expected_score.median
    assert plan.workload["model"] == "qwen3-8b"
    assert (plan.recipe, plan.difficulty) == ("easy", "easy")
    assert plan.assumptions
    assert "plan-1" in repr(plan)
    assert max(map(len, map(repr, (plan, plan.best)))) <= 1000


def test_changing_what_was_returned_does_not_change_the_plan() -> None:
    plan = rlplan.propose(budget=1000)
    plan.to_dict()["candidates"].clear()
    plan.workload.clear()
    assert plan.to_dict()["candidates"]
    assert plan.workload


def test_a_stored_plan_is_the_plan_that_was_proposed() -> None:
    plan = rlplan.propose(budget=5000, recipes=["grpo", "scalerl"], db="here.db")
    stored = rlplan.open("here.db").plan("plan-1")
    assert stored.candidates == plan.candidates
    assert stored.assumptions == plan.assumptions
    kept, proposed = stored.to_dict(), plan.to_dict()
    same = set(kept) - {"candidates", "axes"}
    assert {key: kept[key] for key in same} == {key: proposed[key] for key in same}
    assert sorted(kept["axes"]["recipe"]) == sorted(proposed["axes"]["recipe"])
    assert set(kept["candidates"][0]) >= OF_THE_CONTRACT
    assert set(columns_of(plan.frame())) >= {"axis_recipe", "expected_score"}


def test_a_searched_learning_rate_is_an_axis_of_both() -> None:
    Path("rlplan.toml").write_text("[axes]\nlearning_rate_range = [0.25, 4.0]\n", encoding="utf-8")
    plan = rlplan.propose(budget=5000)
    assert plan.to_dict()["axes"] == {"learning_rate": {"low": 0.25, "high": 4.0}}
    assert rlplan.open().plan().to_dict()["axes"] == plan.to_dict()["axes"]


def test_the_database_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPLAN_DB", "elsewhere.db")
    assert rlplan.propose(budget=1000).database == "elsewhere.db"
    assert rlplan.open().plans("rows")[0]["plan"] == "plan-1"


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"budget": -5}, rlplan.ConfigError, "^budget: .*-5"),
        ({"budget": 100, "gpu": "h10"}, rlplan.UnknownNameError, "h10"),
        ({"budget": 100, "config": "none.toml"}, rlplan.ConfigError, "none.toml"),
        ({}, rlplan.InputError, "such as budget=5000"),
    ],
)
def test_errors_speak_of_arguments(given: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as raised:
        rlplan.propose(**given)
    assert "--" not in str(raised.value)
    assert not Path("rlplan.db").exists()


def test_a_notebook_shows_the_first_candidates() -> None:
    plan = rlplan.propose(budget=5000)
    page = plan._repr_html_()
    assert page.count("<tr>") == 13
    assert f"and {len(plan.candidates) - 12} more" in page
