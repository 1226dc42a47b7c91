"""What rlplan knows of TRL: which recipes and layouts it can run, what it is told, what it says. TRL is not needed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from planner.recipes.loading import load_recipe
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.driver import Attempt
from runner.trainers.trl.driver import TrlDriver, readings
from runner.trainers.trl.folder import PARTS


def trial(recipe: Recipe | str = "plain", options: dict[str, object] | None = None, **changes: object) -> TrialConfig:
    given = {
        "task": TaskChoice(name="sum-easy"),
        "recipe": load_recipe(recipe) if isinstance(recipe, str) and recipe != "plain" else Recipe(name="plain"),
        "rollouts_per_prompt": 4,
        "prompts_per_batch": 6,
        "learning_rate": 1e-4,
        "validation": ValidationPlan(problems=20, samples=2, every_rollouts=48),
        "trainer": TrainerChoice(name="trl", options=options or {}),
    }
    return TrialConfig.model_validate({**given, **({} if isinstance(recipe, str) else {"recipe": recipe}), **changes})


def launched(config: TrialConfig, folder: Path, **attempt: object) -> dict[str, str]:
    given = {"folder": folder, "number": 1, "from_step": 0, "to_step": 4, "checkpoint": None, **attempt}
    return dict(TrlDriver().launch(config, Attempt(**given), 0).files)


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("hard", {"loss_type": "grpo", "beta": 0.0, "scale_rewards": "group", "epsilon": 0.2, "epsilon_high": 0.2}),
        ("easy", {"beta": 1e-3, "entropy_coef": 1e-3, "use_bias_correction_kl": False}),
        ("dr-grpo", {"loss_type": "dr_grpo", "scale_rewards": "none"}),
        ("gspo", {"importance_sampling_level": "sequence", "epsilon": 3e-4, "steps_per_generation": 4}),
        ("cispo", {"loss_type": "cispo", "epsilon_high": 5.0, "adam_beta2": 0.95, "steps_per_generation": 16}),
    ],
)
def test_a_recipe_becomes_trls_settings(recipe: str, settings: dict[str, object], tmp_path: Path) -> None:
    config = trial(recipe)
    TrlDriver().check(config)
    told = json.loads(launched(config, tmp_path)["run.json"])["settings"]
    assert {name: told[name] for name in settings} == settings
    assert told["per_device_train_batch_size"] * told["gradient_accumulation_steps"] == config.rollouts_per_step


@pytest.mark.parametrize(
    ("recipe", "named"),
    [
        ("scalerl", "schedule.staleness_bound = 8.*aggregation = 'prompt'.*scale = 'batch'.*retire_at = 0.9.*hard"),
        ("dapo", "filters.zero_variance = 'refill', but it keeps every group"),
        ("minimax", "objective.aggregation = 'prompt', but its loss cispo has 'token'"),
    ],
)
def test_a_recipe_that_trl_would_train_otherwise_is_refused(recipe: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        TrlDriver().check(trial(recipe))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"machine": Machine(gpus=5)}, "24 rollouts on 5 GPUs.*Use B = 5 or 10, or 4 GPUs"),
        ({"machine": Machine(engine="vllm")}, "vLLM on GPUs only"),
        ({"growth": "4x"}, "growth with --trainer trl: TRL's batch is constant"),
        ({"options": {"held": True}}, "unknown key 'held'.*hold"),
        ({"options": {"settings": {"temperature": 0.7}}}, "temperature: rlplan sets that itself"),
        ({"task": TaskChoice(name="sum-eazy")}, "did you mean 'sum-easy'"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_nearest_that_can(changes: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        TrlDriver().check(trial(**changes))


def test_what_trl_does_nearly_is_run_so_where_that_is_asked_for(tmp_path: Path) -> None:
    near = TrainerChoice(name="trl", approximate=True)

    with pytest.raises(InputError, match="--approximate"):
        TrlDriver().check(trial("minimax"))
    settings = json.loads(launched(trial("minimax", trainer=near), tmp_path)["run.json"])["settings"]

    assert settings["loss_type"] == "cispo"


def test_passes_are_as_large_as_the_memory_allows_and_divide_the_batch(tmp_path: Path) -> None:
    config = trial(machine=Machine(gpus=2, micro_batch_tokens=90))  # 14 tokens a rollout: six, and 12 have divisors
    told = json.loads(launched(config, tmp_path)["run.json"])["settings"]
    assert (told["per_device_train_batch_size"], told["gradient_accumulation_steps"]) == (6, 2)


def test_several_machines_meet_at_the_head(tmp_path: Path) -> None:
    config = trial(machine=Machine(gpus=4, nodes=2, device="cuda"))
    hosts = {"hosts": ("10.0.0.1", "10.0.0.2"), "gpus": ("0,1", "2,3")}
    attempt = Attempt(folder=tmp_path, number=3, from_step=0, to_step=1, checkpoint=None, **hosts)
    second = TrlDriver().launch(config, attempt, 1)
    assert second.argv[1:] == ("start.py", "1")
    assert second.environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    told = json.loads(second.files["run.json"])["launch"]
    assert (told["processes"], told["machines"], told["head"]) == (4, 2, "10.0.0.1")
    assert told["port"] == json.loads(launched(config, tmp_path, number=3, **hosts)["run.json"])["launch"]["port"]


def test_a_line_becomes_a_reading_in_our_names_and_a_torn_one_nothing() -> None:
    logs = {"loss": 0.5, "frac_reward_zero_std": 0.25, "completions/mean_length": 4.5, "num_tokens": 99, "kl": None}
    line = json.dumps(
        {
            "step": 2,
            "at_seconds": 7.5,
            "seconds": {"train": 1.0},
            "logs": logs,
            "score": 0.5,
            "score_standard_error": 0.1,
        }
    )
    (reading,) = readings(line)
    assert (reading.step, reading.score, reading.score_standard_error, reading.at_seconds) == (2, 0.5, 0.1, 7.5)
    assert reading.response_tokens == 4.5
    assert dict(reading.metrics) == {"loss": 0.5, "zero_variance_share": 0.25}
    assert reading.whole
    assert readings(line[: len(line) // 2]) == []


def test_only_marked_checkpoints_count_the_newest_first(tmp_path: Path) -> None:
    for step in (3, 12, 20):
        (tmp_path / f"checkpoint-{step}").mkdir()
    for step in (3, 12):
        (tmp_path / f"checkpoint-{step}" / "complete.json").write_text('{"step": 1, "response_tokens": 4.0}')
    assert [each.step for each in TrlDriver().checkpoints(trial(), tmp_path)] == [12, 3]


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        ("Loading…\nrlplan input: ValueError: no\n", "input"),
        ("rlplan checkpoint: EOFError: \n", "checkpoint"),
        ("Killed", None),
    ],
)
def test_what_the_program_says_of_its_end_is_heard(tail: str, kind: str | None) -> None:
    known = TrlDriver().classify(1, tail)
    assert (known[0] if known else None) == kind


def test_our_parts_need_nothing_else_of_ours(tmp_path: Path) -> None:
    for name, text in launched(trial(), tmp_path).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    numpy = Path(str(find_spec("numpy").origin)).parents[1]
    modules = [part[:-3].replace("/", ".") for part in PARTS if "__init__" not in part]
    modules.remove("runner.trainers.trl.following")  # it needs torch: tests/trl imports it
    code = f"import sys; sys.path[:0] = [{str(tmp_path / 'parts')!r}]; sys.path.append({str(numpy)!r})\n"
    code += "".join(f"import {module}\n" for module in modules)
    code += f"assert {str(tmp_path)!r} in runner.tasks.rewards.__file__"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_the_trainer_ends_when_whoever_started_it_is_gone(tmp_path: Path) -> None:
    files = launched(trial(), tmp_path)
    (tmp_path / "start.py").write_text(files["start.py"])
    (tmp_path / "run.json").write_text(files["run.json"])
    (tmp_path / "train.py").write_text(
        "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nos.rename('pid', 'running')\ntime.sleep(600)\n"
    )
    started = f"import subprocess, time; subprocess.Popen([{sys.executable!r}, 'start.py'], start_new_session=True)"
    holder = subprocess.Popen([sys.executable, "-c", f"{started}; time.sleep(600)"], cwd=tmp_path)
    _until((tmp_path / "running").exists)
    trainer = int((tmp_path / "running").read_text())
    holder.kill()
    holder.wait()
    _until(lambda: not _lives(trainer))


def test_a_trainer_that_hangs_shows_where(tmp_path: Path) -> None:
    files = launched(trial(), tmp_path)
    (tmp_path / "start.py").write_text(files["start.py"])
    (tmp_path / "run.json").write_text(files["run.json"])
    (tmp_path / "train.py").write_text(
        "import pathlib, time\ndef stuck():\n    pathlib.Path('running').touch()\n    time.sleep(600)\nstuck()\n"
    )
    started = subprocess.Popen(
        [sys.executable, "start.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _until((tmp_path / "running").exists)
    started.send_signal(signal.SIGABRT)
    assert " in stuck" in started.communicate(timeout=60)[1]
    assert started.returncode


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("python", ["/nowhere/bin/python", sys.executable])
def test_an_environment_without_trl_is_said_to_be_none(python: str) -> None:
    chosen = TrainerChoice(name="trl", python=python)
    (said,) = TrlDriver().rehearse(trial(trainer=chosen.model_dump()))
    assert said.startswith("TRL's environment cannot be used: ")
    assert ("No such file" if python.startswith("/nowhere") else "No module named") in said
