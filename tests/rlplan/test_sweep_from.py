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
