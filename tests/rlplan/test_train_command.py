"""`rlplan train`: one run, as a sweep of one trial, with simulated workers instead of Ray."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.store.schema import Plan
from rlplan.actions import training
from rlplan.actions.configuring import load_configuration
from rlplan.actions.training import planned, spec_of_run, validation_steps
from rlplan.requests.running import TrainRequest
from runner.ports.simulation import Failures, SimulationChoice
from runner.ports.trial import TrialConfig
from runner.sweep.planning import new_trials
from runner.sweep.spec import SweepSpec
from tests.rlplan.conftest import Run
from tests.rlplan.test_sweeping import COSTS

pytestmark = pytest.mark.usefixtures("simulated_workers")
SMALL = ("train", "--task", "sum-easy", "--steps", "10")


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the run be one of a simulated world."""

    def simulated(**failures: Any) -> None:
        world = SimulationChoice(costs=COSTS, failures=Failures(**failures)).model_dump(mode="json")

        def spec_of(request: TrainRequest, plan: Plan) -> SweepSpec:
            spec = spec_of_run(request, plan)
            return spec.model_copy(update={"training": spec.training.model_copy(update={"simulation": world})})

        monkeypatch.setattr(training, "spec_of_run", spec_of)

    return simulated


def trial_of(**flags: Any) -> TrialConfig:
    """Return the configuration of the one trial that is asked for."""
    request = TrainRequest(**{"task": "sum-easy"} | flags)
    plan = planned(request)
    (trial,) = new_trials(spec_of_run(request, plan), plan)
    return TrialConfig.model_validate(trial.config)


def test_a_run_is_a_sweep_of_one_trial_that_makes_all_of_its_updates(run: Run, simulate: Callable[..., None]) -> None:
    simulate()
    ran = run(*SMALL, "-n", "8", "-B", "16", "--seed", "5")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("sum-easy, n = 8, B = 16: score 0.")
    assert " after 10 updates, " in lines[0]
    assert "Stored as n8-B16-s5 of sweep-1." in ran.out
    assert "  rlplan fit rlplan-sweeps/sweep-1/n8-B16-s5/metrics.jsonl  " in lines[-2]
    assert len(lines) <= 24
    document = run.json("show", "n8")
    assert (document["sweep"], document["state"], document["step"]) == ("sweep-1", "finished", 10)
    assert document["points"][-1]["step"] == 10


def test_its_data_are_those_of_its_trial(run: Run, simulate: Callable[..., None]) -> None:
    simulate()
    document = run.json(*SMALL)
    assert (document["kind"], document["trial"], document["recipe"]) == ("trial", "n16-B32-s0", "grpo")
    rows = run(*SMALL, "--format", "csv").rows
    assert [float(row["score"]) for row in rows] == [point["score"] for point in document["points"]]


def test_a_run_that_fails_exits_with_5_and_is_run_again_by_retry(run: Run, simulate: Callable[..., None]) -> None:
    simulate(at_step=4)
    ran = run(*SMALL)
    assert ran.code == 5
    assert "`rlplan retry sweep-1`" in ran.err


def test_a_run_that_costs_more_than_its_limit_says_so(run: Run, simulate: Callable[..., None]) -> None:
    simulate()
    ran = run("train", "--task", "sum-easy", "--steps", "1000", "--budget", "0.01")
    assert ran.code == 0, ran.err
    said = ran.text
    assert re.search(
        r"Stopped before update 1,000: its limit of 0\.010* GPU-hours is used up; --budget gives more", said
    )


def test_a_task_alone_is_enough() -> None:
    trial = trial_of()
    assert (trial.rollouts_per_prompt, trial.prompts_per_batch, trial.seed) == (16, 32, 0)
    assert (trial.task.model, trial.task.max_response_tokens, trial.machine.device) == (None, None, "cpu")
    assert trial.validation.every_rollouts == 5 * 512
    assert trial_of(task="sum-hard").recipe.name == "grpo"  # which a proposal would price
    plan = planned(TrainRequest(task="sum-easy"))
    (candidate,) = plan.candidates
    assert (candidate.pilot_steps, candidate.update_steps, candidate.segment_steps) == (100, 100, 5)
    assert plan.pilot_gpu_hours > 100 * candidate.gpu_hours_per_step_high


def test_the_learning_rate_scales_with_the_root_of_the_rollouts_unless_it_is_given() -> None:
    recipe = load_configuration(task="sum-easy").config.recipe
    smaller = trial_of(rollouts_per_prompt=16, prompts_per_batch=16).learning_rate
    assert smaller == pytest.approx(recipe.learning_rate * math.sqrt(256 / recipe.learning_rate_rollouts))
    assert trial_of(rollouts_per_prompt=32, prompts_per_batch=32).learning_rate == pytest.approx(2 * smaller)
    assert trial_of(learning_rate=0.5).learning_rate == 0.5


def test_flags_say_what_the_trial_computes_and_where() -> None:
    trial = trial_of(growth="4x@32", temperature=0.7, warmup=3, threads=2, compile=True, micro_batch_tokens=99)
    assert (trial.growth, trial.task.temperature, trial.warmup_steps) == ("4x", 0.7, 3)
    assert (trial.machine.threads, trial.machine.compile, trial.machine.micro_batch_tokens) == (2, True, 99)
    trial = trial_of(problems=60, samples=2, validate_every=1024)
    assert (trial.validation.problems, trial.validation.samples, trial.validation.every_rollouts) == (60, 2, 1024)


def test_a_file_is_below_the_flags_and_above_the_task(tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text(
        '[workload]\ntask = "sum-easy"\n[validation]\nproblems = 50\nsamples = 2\nevery_steps = 7\n'
        '[recipe]\nname = "dapo"\nlearning_rate = 1e-2\nlearning_rate_rollouts = 512\n'
    )
    trial = trial_of(task=None, problems=60)
    assert (trial.task.name, trial.recipe.name) == ("sum-easy", "dapo")
    assert (trial.validation.problems, trial.validation.samples) == (60, 2)
    assert trial.validation.every_rollouts == 7 * 512
    assert math.isclose(trial.learning_rate, 1e-2)
    (tmp_path / "rlplan.toml").write_text('[axes]\nrecipes = ["easy", "dapo"]\n')
    with pytest.raises(InputError, match="compares recipes, models or rates"):
        planned(TrainRequest(task="sum-easy"))


def test_problems_of_ones_own_take_nothing_from_an_embedded_task(tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text('[workload]\ntask = "sum-easy"\n')
    (tmp_path / "mine.jsonl").write_text('{"prompt": "1+1", "answer": "2"}\n')
    with pytest.raises(InputError, match="needs --model FOLDER and --response-tokens too"):
        planned(TrainRequest(task="mine.jsonl", device="cpu"))
    (tmp_path / "model").mkdir()
    shape = "num_hidden_layers num_attention_heads hidden_size intermediate_size vocab_size max_position_embeddings"
    (tmp_path / "model" / "config.json").write_text(str(dict.fromkeys(shape.split(), 2)).replace("'", '"'))
    trial = trial_of(task="mine.jsonl", model="model", response_tokens=1, device="cpu")
    assert trial.task.name == str(tmp_path / "mine.jsonl")  # in full: a run is resumed from any directory
    assert trial.task.model == str(tmp_path / "model")
    assert (trial.task.reward, trial.task.max_response_tokens) == ("math", 1)
    assert trial.learning_rate == pytest.approx(1e-6 * math.sqrt(0.5))


@given(st.integers(1, 5000))
def test_a_run_is_validated_about_twenty_times(steps: int) -> None:
    every = validation_steps(steps)
    assert min(steps, 13) <= steps // every <= 30
    assert every == 1 or steps % every < every
