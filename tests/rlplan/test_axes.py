"""Recipes, base models and learning rates on the command line: a plan's document and table, a sweep of it."""

import math
from pathlib import Path
from typing import Any

import pytest

from planner.store import open_store, sweeps
from planner.store.schema import Candidate, Plan, Trial
from tests.planner.store import samples
from tests.rlplan.conftest import Run
from tests.rlplan.test_sweeping import interrupted, stored

pytestmark = pytest.mark.usefixtures("simulated_workers")

BOTH = ("--recipes", "easy,dapo")


def plan(run: Run, *args: str) -> dict[str, Any]:
    return run.json("propose", "--task", "sum-easy", "--budget", "0.5", *args)


def test_the_document_has_axes_where_there_are_any(run: Run) -> None:
    both = plan(run, *BOTH)
    assert both["axes"] == {"recipe": ["easy", "dapo"]}
    pilots = [candidate for candidate in both["candidates"] if candidate["pilot_steps"]]
    assert {candidate["axes"]["recipe"] for candidate in pilots} == {"easy", "dapo"}
    assert math.fsum(candidate["pilot_gpu_hours"] for candidate in pilots) <= both["pilot_gpu_hours"]
    assert "axes" not in plan(run, "--explore", "--recipes", "dapo")
    rows = run("propose", "--task", "sum-easy", "--budget", "0.5", *BOTH, "--format", "csv").rows
    assert {row["axis_recipe"] for row in rows} == {"easy", "dapo"}


def test_values_without_a_pilot_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text("[pilot]\nmost_pilots = 2\n")
    recipes = ("--recipes", "easy,dapo,grpo,dr-grpo", "--explore", "--explain")
    assert run("propose", "--task", "sum-easy", "--budget", "0.5", *recipes, width=200).out.count("No pilot of ") == 2


def test_a_range_of_learning_rates_from_the_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text("[axes]\nlearning_rate_range = [0.3, 3.0]\n")
    document = plan(run)
    assert document["axes"] == {"learning_rate": {"low": 0.3, "high": 3.0}}
    factors = [c["axes"]["learning_rate"] for c in document["candidates"] if c["pilot_steps"]]
    assert len(set(factors)) > 2
    assert all(0.3 <= factor <= 3 for factor in factors)
    assumed = next(entry for entry in document["assumptions"] if entry["what"] == "learning rate")
    assert assumed["value"].endswith("times 0.3 to 3, to be searched")


def test_each_model_is_priced_from_its_own_measured_steps(run: Run, tmp_path: Path) -> None:
    names = ("--budget", "5000", "--models", "qwen3-4b,qwen3-8b", "--gpus-per-trial", "32", "--format", "json")
    before = run("propose", *names).json
    with open_store(tmp_path / "rlplan.db") as store:
        samples.put(store, sweeps.add_cost_records, [samples.cost_record(model="qwen3-4b")] * 20)
    after = run("propose", *names).json

    def spreads(document: dict[str, Any], model: str) -> dict[tuple[int, int], float]:
        return {
            (cell["rollouts_per_prompt"], cell["prompts_per_batch"]): float(
                cell["gpu_hours_per_step_high"] / cell["gpu_hours_per_step_low"]
            )
            for cell in document["candidates"]
            if cell["axes"]["model"] == model
        }

    (first, wide), *_ = spreads(before, "qwen3-4b").items()
    assert spreads(after, "qwen3-4b")[first] < 0.75 * wide
    other = spreads(after, "qwen3-8b")
    assert other == pytest.approx({cell: spreads(before, "qwen3-8b")[cell] for cell in other})


@pytest.mark.parametrize(("asked", "used"), [(None, "tpe"), ("none", None), ("qmc", "qmc")])
def test_a_range_is_searched_unless_that_is_not_wanted(database: str, asked: str | None, used: str | None) -> None:
    flags = {"axes.learning_rate_range": ("rlplan.toml", [0.3, 3.0])}
    interrupted(database, further=flags, policy="rlplan", search=asked)
    with open_store(database, read_only=True) as store, store.read() as session:
        plan = session.query(Plan).one()
        assert plan.config["axes"]["learning_rate_range"] == [0.3, 3.0]
        trial = session.query(Trial).first()
        candidate = session.get_one(Candidate, trial.candidate_id)
        assert (trial.axes, trial.learning_rate) == (candidate.axes, candidate.learning_rate)
    assert stored(database).config["search"] == used


def test_an_embedded_tasks_model_is_not_compared(run: Run) -> None:
    tiny = "[models.tiny]\nhidden = 96\nlayers = 3\nheads = 3\nkv_heads = 3\nhead_dim = 32\nintermediate = 256\n"
    Path("rlplan.toml").write_text(tiny + "vocabulary = 32\ncontext = 64\ntied_embeddings = true\n")
    ran = run("sweep", "--task", "sum-easy", "--budget", "0.5", "--models", "tiny-sums,tiny", "--dry-run")
    assert ran.code == 2
    assert "the embedded task 'sum-easy' has its own" in ran.err
