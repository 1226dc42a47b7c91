"""What is prime-rl's alone: its ports, its gates, and validations that overlap the training."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from runner.ports.trial import TaskChoice, TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.in_own_ray import PORTS_VARIABLE
from runner.trainers.launch import programs
from runner.trainers.prime_rl.driver import AGENT, DRIVER
from runner.trainers.prime_rl.log import StepSource, standard_error
from tests.runner.trainers.standins import attempt, launched

Made = Callable[..., TrialConfig]


def told(config: TrialConfig, begun: Attempt) -> dict[str, Any]:
    return dict(json.loads(launched(config, begun).files["rl.json"]))


def ports(keys: dict[str, Any]) -> set[int]:
    inference, orchestrator = keys["inference"], keys["orchestrator"]
    own = {inference["server"]["port"], inference["backend_port"], inference["vllm"]["data_parallel_rpc_port"]}
    return own | {orchestrator["env_server_base_port"], orchestrator["env_server_base_port"] + 1}


def test_the_ports_of_a_cluster_are_kept_to(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORTS_VARIABLE, "20000-20099")
    taken = [ports(told(made("prime-rl"), attempt(tmp_path, gpus=(f"{first},{first + 1}",)))) for first in (0, 2, 4, 6)]
    assert len(set.union(*taken)) == 20
    assert all(20_000 <= port <= 20_099 for port in set.union(*taken))
    unnumbered = ports(told(made("prime-rl"), attempt(tmp_path, gpus=("MIG-1,MIG-2",))))
    assert all(20_000 <= port <= 20_099 for port in unnumbered)


def test_two_trials_on_a_host_have_other_ports(made: Made, tmp_path: Path) -> None:
    first, second = (told(made("prime-rl"), attempt(tmp_path, gpus=(gpus,))) for gpus in ("0,1", "2,3"))
    assert len(ports(first) | ports(second)) == 10
    assert first["orchestrator"]["model"]["client"]["base_url"].endswith(f":{first['inference']['server']['port']}/v1")


LAUNCHER = """
import pathlib, sys
for name, text in (("trainer", "OutOfMemoryError: CUDA out of memory." + sys.argv[1] * 60), ("inference", "ready")):
    log = pathlib.Path("run/logs/attempt_2", f"{name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
print("Process trainer failed")
sys.exit(1)
"""


def test_what_the_trainer_ran_out_of_is_known_although_the_launcher_shows_the_orchestrators_log(
    tmp_path: Path,
) -> None:
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    (tmp_path / "start.py").write_text(programs("prime_rl", "start.py")["start.py"])
    former = tmp_path / "run" / "logs" / "attempt_1" / "inference.log"
    former.parent.mkdir(parents=True)
    former.write_text("of the start before")
    command = [sys.executable, "start.py", "launcher", "\nRoot cause: see above"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert DRIVER.classify(ended.returncode, ended.stdout) == (
        "out-of-memory",
        "prime-rl: OutOfMemoryError: CUDA out of memory.",
    )
    assert "ready" in ended.stdout
    assert "of the start before" not in ended.stdout


def test_a_validation_that_overlaps_the_training_is_of_the_weights_that_it_names(tmp_path: Path) -> None:
    orchestrator, trainer = tmp_path / "o.jsonl", tmp_path / "t.jsonl"
    source = StepSource(attempt(tmp_path, to_step=6), (orchestrator, trainer), tmp_path / "rollouts", 4, "validation")

    def say(path: Path, step: int, at: float, **row: float) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"step": step, "time": at, **row}) + "\n")

    def trained(step: int) -> None:
        say(orchestrator, step, 100.0 + step, **{"time/pack": 0.1, "time/step": 1.0, "progress/rollouts": 24})
        say(trainer, step, 100.5 + step, **{"loss/mean": 0.5, "time/forward_backward": 0.2})

    trained(1)
    assert source.read() == []  # the base model is being scored
    say(orchestrator, 1, 100.9, **{"eval/validation/policy_version": 0, "eval/validation/all/agent/avg@2": 0.25})
    assert [(each.step, each.score) for each in source.read()] == [(0, None), (0, 0.25)]
    for step in (2, 3, 4):
        trained(step)
    assert source.read() == []  # the validation of step 4 may be of the weights of step 1
    say(orchestrator, 4, 104.7, **{"eval/validation/policy_version": 2, "eval/validation/all/agent/avg@2": 0.5})
    readings = source.read()
    assert [(each.step, each.score) for each in readings] == [(1, None), (2, None), (2, 0.5), (3, None), (4, None)]
    assert readings[0].at_seconds == 101.5
    assert readings[0].metrics["loss"] == 0.5
    assert readings[0].seconds == {"update": 0.2}


def test_an_environment_of_verifiers_has_its_own_problems(made: Made, task: TaskChoice, tmp_path: Path) -> None:
    wordle = {"taskset": {"id": "wordle"}, "player": {"harness": {"id": "null"}}}
    alone = TaskChoice(name="prime-rl", model=task.model, max_response_tokens=8, prompt_length=16)
    options = {"environment": wordle, "validation_environment": {"taskset": {"id": "wordle", "split": "eval"}}}
    launch = launched(made("prime-rl", task=alone, options=options), attempt(tmp_path))
    keys = json.loads(launch.files["rl.json"])
    (train,), (validation,) = (keys["orchestrator"][part]["source"] for part in ("train", "eval"))
    assert train["env"] == wordle
    assert validation["env"] == {"taskset": {"id": "wordle", "split": "eval"}, "agent": AGENT}
    assert (keys["seq_len"], keys["orchestrator"]["eval"]["num_examples"]) == (24, 20)
    tasks = {r"\[task\] prompt_length": alone.model_copy(update={"prompt_length": None})}
    tasks["--problems"] = task.model_copy(update={"prompt_length": 16})
    for said, other in tasks.items():
        with pytest.raises(InputError, match=said):
            launched(made("prime-rl", task=other, options=options), attempt(tmp_path))
    with pytest.raises(InputError, match=r"recipe\.rewards"):
        launched(made("prime-rl", "dapo", task=alone, options=options), attempt(tmp_path))


def test_the_error_of_a_score_is_over_the_problems_of_the_environment(tmp_path: Path) -> None:
    traces = [
        {"traces": [{"task": {"data": {"idx": place}}, "rewards": {"won": {"score": score, "weight": 1.0}}}]}
        for place, score in ((0, 1.0), (0, 0.0), (1, 1.0), (1, 1.0))
    ]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(each) + "\n" for each in traces))
    assert standard_error(tmp_path / "traces.jsonl") == pytest.approx(0.25)
