import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from rlplan.actions.configuring import load_configuration
from rlplan.actions.train_request import TrainRequest, new_run, validation_steps


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_task_alone_is_enough() -> None:
    run, folder = new_run(TrainRequest(task="sum-easy"))
    trial = run.trial
    assert (trial.rollouts_per_prompt, trial.prompts_per_batch, run.update_steps) == (16, 32, 100)
    assert (trial.task.model, trial.task.max_response_tokens, trial.machine.device) == (None, None, "cpu")
    assert trial.validation.every_rollouts == 5 * 512
    assert folder == Path("runs/sum-easy-easy-n16-B32-seed0")
    assert new_run(TrainRequest(task="sum-hard"))[0].trial.recipe.name == "hard"  # which a proposal would price


def test_the_learning_rate_scales_with_the_root_of_the_rollouts_unless_it_is_given() -> None:
    def rate(**flags: object) -> float:
        return new_run(TrainRequest(task="sum-easy", **flags))[0].trial.learning_rate

    recipe = load_configuration(task="sum-easy").config.recipe
    assert rate(rollouts_per_prompt=16, prompts_per_batch=16) == pytest.approx(
        recipe.learning_rate * math.sqrt(256 / recipe.learning_rate_rollouts)
    )
    assert rate(rollouts_per_prompt=32, prompts_per_batch=32) == pytest.approx(
        2 * rate(rollouts_per_prompt=16, prompts_per_batch=16)
    )
    assert rate(learning_rate=0.5) == 0.5


def test_a_file_is_below_the_flags_and_above_the_task(tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text(
        '[workload]\ntask = "sum-easy"\n[validation]\nproblems = 50\nsamples = 2\nevery_steps = 7\n'
        '[recipe]\nname = "dapo"\nlearning_rate = 1e-2\nlearning_rate_rollouts = 512\n'
    )
    run, _ = new_run(TrainRequest(problems=60))
    assert run.trial.task.name == "sum-easy"
    assert run.trial.recipe.name == "dapo"
    assert (run.trial.validation.problems, run.trial.validation.samples) == (60, 2)
    assert run.trial.validation.every_rollouts == 7 * 512
    assert math.isclose(run.trial.learning_rate, 1e-2)


def test_a_trainer_of_sweeps_is_said_to_train_no_single_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rlplan.toml").write_text('[trainer]\nname = "trl"\n')
    run, _ = new_run(TrainRequest(task="sum-easy"))
    assert run.trial.trainer is None
    assert "`rlplan train` has rlplan's own" in capsys.readouterr().err


def test_problems_of_ones_own_take_nothing_from_an_embedded_task(tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text('[workload]\ntask = "sum-easy"\n')
    (tmp_path / "mine.jsonl").write_text('{"prompt": "1+1", "answer": "2"}\n')
    run, folder = new_run(TrainRequest(task="mine.jsonl", model="model", response_tokens=64, device="cpu"))
    assert run.trial.task.name == str(tmp_path / "mine.jsonl")  # in full: a run is resumed from any directory
    assert run.trial.task.model == str(tmp_path / "model")
    assert run.trial.task.reward == "math"
    assert run.trial.learning_rate == pytest.approx(1e-6 * math.sqrt(0.5))
    assert folder.name == "mine-easy-n16-B32-seed0"


def test_problems_of_ones_own_need_a_model_and_a_length(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("")
    with pytest.raises(InputError, match="needs --model FOLDER and --response-tokens too"):
        new_run(TrainRequest(task="mine.jsonl", device="cpu"))
    (tmp_path / "rlplan.toml").write_text('[workload]\nmodel = "model"\nresponse_tokens = 99\n')
    task = new_run(TrainRequest(task="mine.jsonl", device="cpu"))[0].trial.task
    assert (task.model, task.max_response_tokens) == ("model", 99)


def test_a_growing_batch_has_its_own_folder_and_is_validated_as_often() -> None:
    constant, folder = new_run(TrainRequest(task="sum-easy"))
    growing, another = new_run(TrainRequest(task="sum-easy", growth="4x@32"))
    assert (constant.trial.growth, growing.trial.growth) == (None, "4x")
    assert (folder.name, another.name) == ("sum-easy-easy-n16-B32-seed0", "sum-easy-easy-n16-B32-4x-seed0")
    made = 16 * (32 * 8 + 48 * 16 + 20 * 32)
    assert made // 20 == growing.trial.validation.every_rollouts < constant.trial.validation.every_rollouts
    assert new_run(TrainRequest(task="sum-easy", growth="none"))[0].trial == constant.trial


@given(st.integers(1, 5000))
def test_a_run_is_validated_about_twenty_times(steps: int) -> None:
    every = validation_steps(steps)
    assert min(steps, 13) <= steps // every <= 30
    assert every == 1 or steps % every < every
