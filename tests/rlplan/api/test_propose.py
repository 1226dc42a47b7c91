"""Plans from Python, made and stored."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import rlplan
from tests.rlplan.api.conftest import columns_of
from tests.rlplan.conftest import Run

OF_THE_CONTRACT = {
    *("rank", "rollouts_per_prompt", "prompts_per_batch", "update_steps", "pilot_steps", "gpu_hours_per_step"),
    *("pilot_gpu_hours", "learning_rate", "epochs", "signal_fraction", "expected_score", "notes"),
}


def test_a_plan_is_the_document_of_the_command(run: Run) -> None:
    plan = rlplan.propose(budget=5000, model="qwen3-8b", gpu="h100", gpus=64)
    flags = ("--budget", "5000", "--model", "qwen3-8b", "--gpu", "h100", "--gpus", "64", "--format", "json")
    printed = run("propose", *flags).json
    said = json.loads(json.dumps(plan.to_dict()))
    for document in (printed, said):
        document.pop("plan")
        for each in document["assumptions"]:  # where a value comes from: a flag there, an argument here
            each.pop("source")
    assert said == printed


def test_a_stored_plan_is_the_plan_that_was_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPLAN_DB", "here.db")
    plan = rlplan.propose(budget=5000, recipes=["grpo", "scalerl"])
    stored = rlplan.open().plan("plan-1")
    assert (plan.database, Path("here.db").exists()) == ("here.db", True)
    assert stored.candidates == plan.candidates
    assert stored.assumptions == plan.assumptions
    kept, proposed = stored.to_dict(), plan.to_dict()
    same = set(kept) - {"candidates", "axes"}
    assert {key: kept[key] for key in same} == {key: proposed[key] for key in same}
    assert sorted(kept["axes"]["recipe"]) == sorted(proposed["axes"]["recipe"])
    assert set(kept["candidates"][0]) >= OF_THE_CONTRACT
    assert set(columns_of(plan.frame())) >= {"axis_recipe", "expected_score"}


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


def test_a_mistyped_argument_is_named_with_the_nearest_and_functions_say_what_they_return() -> None:
    with pytest.raises(TypeError, match=r"^propose\(\) got .* argument 'budgt': did you mean 'budget'"):
        rlplan.propose(budgt=5000)  # type: ignore[call-arg]
    for function in (rlplan.propose, rlplan.fit, rlplan.price, rlplan.preview, rlplan.run, rlplan.adopt, rlplan.watch):
        assert inspect.signature(function).return_annotation not in (None, inspect.Parameter.empty)


def test_a_plan_is_previewed_as_it_was_returned() -> None:
    plan = rlplan.propose(budget=0.02, task="sum-easy", db="other.db")
    found = rlplan.preview(plan, draws=1, pilot_fractions="0,0.2")  # type: ignore[arg-type]
    assert found.to_dict()["plan"] == plan.name
