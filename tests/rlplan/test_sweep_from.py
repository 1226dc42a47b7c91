"""`rlplan sweep --from`: what people start each of the trainers with becomes a sweep of that trainer."""

import json
from pathlib import Path

import pytest

from tests.rlplan.conftest import Run
from tests.runner.tasks.checkpoints import save_checkpoint
from tests.runner.trainers.scripts import SCRIPTS, written

NEEDED = {
    "nemo-rl": 'checkout = "/opt/RL"\n',
    "slime": 'checkout = "."\nmegatron = "/opt/Megatron-LM"\nmodel_args = "small.sh"\n',
}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("task")
    rows = [{"prompt": f"what is 2 + {number}", "answer": "4"} for number in range(2000)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        "--problems",
        str(folder / "sums.jsonl"),
        "--reward",
        "exact",
        "--model",
        str(save_checkpoint(folder / "m")),
    ]


@pytest.mark.parametrize("trainer", SCRIPTS)
def test_a_dry_run_says_what_is_kept_and_what_the_plan_decides(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: list[str], trainer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    given = SCRIPTS[trainer]
    path = written(tmp_path, given.name, given.text)
    Path("rlplan.toml").write_text(f'[trainer]\nname = "{trainer}"\n[trainer.options]\n{NEEDED.get(trainer, "")}')
    (tmp_path / "small.sh").write_text("MODEL_ARGS=(\n   --swiglu\n   --num-layers 2\n)\n")
    run(
        "propose", "--budget", "5000", "--gpus-per-trial", "8", "--response-tokens", "16", "--mean-response-tokens", "8"
    )
    told = run("sweep", "plan-1", "--trainer", trainer, "--from", str(path), "--dry-run", "--approximate", *task)
    assert told.code == 0, told.err
    said = told.text + " ".join(told.err.split())
    assert all(key in said.partition("these are kept")[2].partition("of " + given.name)[0] for key in given.kept)
    assert all(key in said.partition("decided by the plan")[2] for key in list(given.replaced)[:2])


@pytest.mark.parametrize(("model", "printed"), [("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"), ("/models/Qwen3-8B", "Qwen3-8B")])
def test_what_a_plan_prints_loads_the_model_that_its_script_names(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, printed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, "run.sh", SCRIPTS["verl"].text.rstrip() + f" actor_rollout_ref.model.path={model}\n")
    assert run("propose", "--budget", "800", "--from", str(path)).code == 0
    assert f"actor_rollout_ref.model.path={printed} " in run("launch", "--print", "verl").text


def test_a_plan_that_the_sweep_makes_is_of_the_workload_of_its_script(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    short = " data.max_prompt_length=8 data.max_response_length=16\n"
    path = written(tmp_path, "run.sh", SCRIPTS["verl"].text.rstrip() + short)
    script = ("--budget", "800", "--from", str(path))
    proposed = run("propose", *script, "--model", task[-1], "--format", "json")
    assert proposed.code == 0, proposed.err
    plan = proposed.json
    told = run("sweep", *script, "--trainer", "verl", "--dry-run", "--approximate", *task, "--format", "json")
    assert told.code == 0, told.err
    pilots = {
        (each["rollouts_per_prompt"], each["prompts_per_batch"], each["pilot_steps"])
        for each in plan["candidates"]
        if each["pilot_steps"]
    }
    assert {
        (each["rollouts_per_prompt"], each["prompts_per_batch"], each["pilot_steps"]) for each in told.json["trials"]
    } == pilots


def test_a_script_s_trainer_problems_and_model_are_kept_and_what_replaces_the_rest_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    truths = [{"ground_truth": "4", "style": "rule"}] * 300
    questions = [[{"role": "user", "content": f"what is 2 + {number}"}] for number in range(300)]
    parquet.write_table(pyarrow.table({"prompt": questions, "reward_model": truths}), tmp_path / "train.parquet")
    own = f" data.train_files=train.parquet actor_rollout_ref.model.path={task[-1]} data.max_prompt_length=8"
    text = SCRIPTS["verl"].text.rstrip() + own + " data.max_response_length=16\n"
    path = written(tmp_path, "run.sh", text.replace("lr=1e-6", "lr=2e-6"))

    proposed = run("propose", "--budget", "800", "--from", path.name)
    following = next(line for line in proposed.out.splitlines() if "rlplan sweep plan-1 --from run.sh" in line)
    assert "--problems" not in following

    told = run("sweep", "plan-1", "--from", path.name, "--reward", "exact", "--dry-run", "--approximate")
    assert told.code == 0, told.err
    said = " ".join((told.out + told.err).split())
    assert "data.train_batch_size (512 becomes 256)" in said, said
    assert "actor_rollout_ref.actor.optim.lr (2e-6 as it says)" in said, said


def test_the_next_step_of_a_script_of_trl_is_trl_s(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(
        tmp_path,
        "run.py",
        "args = GRPOConfig(num_generations=8, per_device_train_batch_size=8, learning_rate=1e-6)\n"
        'data = load_dataset("openai/gsm8k")\nGRPOTrainer(model="Qwen/Qwen2.5-1.5B", args=args, train_dataset=data)\n',
    )
    proposed = run("propose", "--budget", "500", "--from", path.name, "--gpus", "8")
    assert proposed.code == 0, proposed.err
    assert "rlplan sweep plan-1 --from run.py" in proposed.out
    assert "verl" not in proposed.out
    refused = run("sweep", "--budget", "500", "--from", path.name, "--gpus", "8", "--dry-run")
    assert "give --problems" not in refused.err  # the hub may not be reached from here
    assert "goes with --trainer" not in refused.err
