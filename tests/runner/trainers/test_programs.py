"""Our programs that run in a trainer's own interpreter, as far as they need nothing of the trainer."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

import runner.trainers
from planner.logs.trainers import load_trainer
from planner.recipes.schema import Advantage
from runner.grpo.advantages import advantages
from runner.ports.trial import TrialConfig
from runner.trainers.launch import opened_task
from runner.trainers.metric_lines import readings
from runner.trainers.trainer_process import PARTS, SAVE_NOW, OrderedData, ordered_problems, write_data
from runner.trainers.trl.driver import DRIVER
from runner.training.components import open_stream
from tests.runner.trainers.standins import attempt, launched, trial
from tests.runner.waiting import lives, until

OWN = Path(runner.trainers.__file__).parent


def program(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def laid(config: TrialConfig, folder: Path) -> None:
    for name, text in launched(config, attempt(folder)).files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_the_prompts_come_in_the_order_that_the_builtin_trainer_has(tmp_path: Path) -> None:
    config = trial("openrlhf", options={"horizon_steps": 30})
    order = ordered_problems(json.loads(launched(config, attempt(tmp_path)).files["run.json"]))
    assert order == open_stream(config, opened_task(config)).take(30 * config.prompts_per_batch)


def test_a_problem_is_laid_once_however_long_the_horizon_and_none_may_be_left_out(tmp_path: Path) -> None:
    config = trial("openrlhf", options={"horizon_steps": 30})
    laid(config, tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    write_data(tmp_path, run, lambda number, prompt: {"label": number})
    train = [json.loads(line)["label"] for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert train == list(range(len(opened_task(config).train)))
    prompts = OrderedData(train, run)
    assert [prompts[place] for place in range(len(prompts))] == ordered_problems(run)
    with pytest.raises(RuntimeError, match=r"rlplan input: it took 2 of the .* problems"):
        OrderedData(train[:2], run)


def test_a_prompt_is_shown_to_openrlhf_as_the_model_expects_it() -> None:
    text_of = program(OWN / "openrlhf" / "start.py").text_of

    class Begins:
        chat_template, bos_token, bos_token_id = None, "<s>", 1

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [1, 5]}

    assert text_of(Begins(), "1+1=") == "<s>1+1="
    chat = SimpleNamespace(chat_template="t", apply_chat_template=lambda turns, **_: f"<{turns[0]['content']}>")
    assert text_of(chat, "1+1=") == "<1+1=>"
    with pytest.raises(SystemExit, match="rlplan input"):
        text_of(Begins(), [{"role": "user", "content": "1+1="}])


def test_what_nemo_rl_logs_and_dumps_is_told_at_once(tmp_path: Path) -> None:
    class Logger:
        said: ClassVar[list[Any]] = []

        def log_metrics(self, metrics: Any, step: int, prefix: str = "") -> None:
            self.said.append(metrics)

        def log_batched_dict_as_jsonl(self, to_log: Any, filename: str) -> None:
            self.said.append(filename)

    teller = program(OWN / "nemo_rl" / "start.py").NemoRlWriter(tmp_path, {"metrics": "m.jsonl", "samples": 2})
    teller.listen_to(Logger)
    logger = Logger()
    logger.log_metrics({"total": 1.0}, 0, "timing/setup")
    assert not (tmp_path / "m.jsonl").exists()  # what it logs before it stands at its first step is not of one
    teller.begin(0)
    logger.log_batched_dict_as_jsonl({"rewards": [1, 0, 0, 0]}, "val_data_step0.jsonl")
    logger.log_metrics({"accuracy": 0.25}, 0, "validation")
    logger.log_metrics({"loss": torch.tensor(0.5), "mean_gen_tokens_per_sample": 7, "text": "x"}, 1, prefix="train")

    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    begun, scored, again, trained = [
        reading for line in lines for reading in readings(line, load_trainer("nemo-rl"), 4)
    ]
    assert (begun.step, dict(begun.metrics)) == (0, {})
    assert (scored.score, scored.score_standard_error) == (0.25, pytest.approx(0.25))
    assert again.score is None
    assert (trained.step, trained.response_tokens, trained.metrics["loss"]) == (4, 7.0, 0.5)
    assert len(Logger.said) == 4  # and it logs as it would have


def test_nemo_rl_goes_on_after_a_pass_and_clips_the_ratio_against_the_sampler(tmp_path: Path) -> None:
    nemo, data = program(OWN / "nemo_rl" / "start.py"), {"prev_logprobs": [-1.0], "generation_logprobs": [-2.0]}
    writer = nemo.NemoRlWriter(tmp_path, {"metrics": "m.jsonl"})
    train = nemo.repeating(lambda dataloader, **_: dataloader, lambda once: (once, once))
    started = nemo.starting(train, "current_step", SimpleNamespace, writer)
    assert started(dataloader="pass", grpo_save_state=SimpleNamespace(current_step=5, total_steps=0)) == ("pass",) * 2
    assert json.loads((tmp_path / "m.jsonl").read_text())["step"] == 5

    mask = nemo.against_sampler(lambda train_data, rewards: train_data["prev_logprobs"][0] + rewards)
    assert mask(train_data=data, rewards=3.0) == 2.0  # it compares the trainer's own
    assert data["prev_logprobs"] == [-2.0]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_nemo_rls_advantages_are_ours(scale: Any) -> None:
    settings = Advantage(scale=scale)
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    own = program(OWN / "nemo_rl" / "start.py").Advantages(3, settings.model_dump())
    theirs = own.compute_advantage(None, rewards, torch.ones(6, 5))
    assert torch.equal(theirs, advantages(rewards, 3, settings)[:, None].expand(6, 5))


def test_nemo_rl_and_slime_save_after_the_update_under_way_when_that_is_asked_for(tmp_path: Path) -> None:
    nemo, slime = program(OWN / "nemo_rl" / "start.py"), program(OWN / "slime" / "start.py")
    nemo.FOLDER = slime.FOLDER = tmp_path
    check_save = nemo.on_request(lambda _: False)  # its TimeoutChecker's
    is_due = slime.on_request(lambda batch, interval, per_epoch, batches: (batch + 1) % interval == 0)

    def asked() -> list[bool]:
        return [check_save(None), is_due(0, 3, None, 9), is_due(2, 3, None, 9), is_due(0, 3, None), is_due(2, 3)]

    assert asked() == [False, False, True, False, True]
    (tmp_path / SAVE_NOW).touch()
    assert asked() == [True, True, True, False, True]  # a validation is due as before


@pytest.fixture
def adapter(made: Callable[..., TrialConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return what slime would import from a trial's folder."""
    laid(made("slime", "dapo", prompts_per_batch=1), tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return program(tmp_path / "rlplan_slime.py")


def sample(number: int, response: str = "4", *, group: int = 0, status: str = "COMPLETED", worth: float = 0.0) -> Any:
    return SimpleNamespace(
        label=str(number),
        response=response,
        response_length=1,
        group_index=group,
        status=SimpleNamespace(name=status),
        remove_sample=False,
        get_reward_value=lambda _: worth,
    )


def test_slimes_reward_is_shaped_in_training_and_plain_in_a_validation(adapter: ModuleType) -> None:
    worths = [asyncio.run(adapter.reward(None, sample(number, said))) for number in (0, 24) for said in ("4", "5")]
    assert worths == [1.0, -1.0, 1.0, 0.0]


class Named:
    """What verifiers has classes for: any names."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given = given
        vars(self).update(named)

    def __class_getitem__(cls, _: Any) -> type:
        return cls


def test_prime_rls_reward_is_shaped_in_training_and_plain_in_a_validation(
    made: Callable[..., TrialConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = ("TasksetConfig", "TaskData", "Task", "State", "TaskConfig", "Taskset")
    v1 = SimpleNamespace(**{name: type(name, (Named,), {}) for name in classes}, reward=lambda function: function)
    monkeypatch.setitem(sys.modules, "verifiers", SimpleNamespace(v1=v1))
    monkeypatch.setitem(sys.modules, "verifiers.v1", v1)
    laid(made("prime-rl", "dapo", prompts_per_batch=1), tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    taskset = program(tmp_path / "rlplan_taskset.py").RlplanTaskset

    def worth(split: str, number: int, said: str) -> float:
        tasks = taskset(config=SimpleNamespace(split=split, seed=0, task=None)).load()
        (asked,) = [each for each in tasks if each.given[0].number == number]
        reward: float = asyncio.run(asked.rlplan(asked.given[0], SimpleNamespace(last_reply=said, num_output_tokens=1)))
        return reward

    assert [worth("train", 0, said) for said in ("4", "5")] == [1.0, -1.0]
    assert [worth("validation", 24, said) for said in ("4", "5")] == [1.0, 0.0]


def test_slimes_advantages_are_ours_and_truncated_responses_are_left_out(adapter: ModuleType) -> None:
    worths = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0]
    samples = [sample(0, group=place % 2, worth=worth) for place, worth in enumerate(worths)]
    samples[2].status = SimpleNamespace(name="TRUNCATED")

    rewards, found = adapter.advantages_of(None, samples)

    assert rewards == worths
    expected = advantages(torch.tensor(worths[0::2] + worths[1::2]), 4, Advantage())
    assert found == pytest.approx([*torch.stack([expected[:4], expected[4:]], dim=1).flatten().tolist()])
    assert [each.remove_sample for each in samples] == [place == 2 for place in range(8)]


def test_what_slime_logs_is_told_by_the_updates_that_were_done(
    adapter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {"validation": {"samples": [sample(24), sample(24), sample(25), sample(25)], "rewards": [1, 0, 0, 0]}}
    stub = SimpleNamespace(logging_utils=SimpleNamespace(log=print))
    monkeypatch.setitem(sys.modules, "slime.observability", stub)
    adapter.say(0)
    assert adapter.tell_validation(0, None, data) is False
    adapter.tell_rollouts(0)
    adapter.tell_logged({"rollout/response_len/mean": 7.0, "rollout/step": 0}, "rollout/step")
    adapter.tell_logged({"train/pg_loss": 0.5, "train/step": 15}, "train/step")
    adapter.tell_validation(0, None, data)

    lines = (tmp_path / "attempt-1.metrics.jsonl").read_text().splitlines()
    begun, base, made, trained, scored = [
        reading for line in lines for reading in readings(line, load_trainer("slime"), 16)
    ]
    assert (begun.step, base.step, made.step, trained.step, scored.step) == (0, 0, 16, 16, 16)
    assert (base.score, made.response_tokens, trained.metrics["loss"], scored.score) == (0.25, 7.0, 0.5, 0.25)


def test_slime_validates_once_before_a_first_batch_that_it_makes_ahead() -> None:
    done: list[str] = []
    start = program(OWN / "slime" / "start.py")
    update = start.validating_first(lambda: done.append("weights"), lambda: done.append("validation"))
    update()
    update()
    assert done == ["weights", "validation", "weights"]


@pytest.mark.parametrize(("recipe", "steps"), [("scalerl", [1, 1]), ("hard", [2, 1, 1])])
def test_what_slime_makes_ahead_is_not_read_before_the_step_that_it_trains(
    recipe: str, steps: list[int], made: Callable[..., TrialConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid(made("slime", recipe, prompts_per_batch=1), tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    stub = SimpleNamespace(log=lambda *_: None)
    monkeypatch.setitem(sys.modules, "slime.observability", SimpleNamespace(logging_utils=stub))
    manager, trainer = (program(tmp_path / "rlplan_slime.py") for _ in range(2))
    manager.tell_rollouts(0)
    manager.tell_rollouts(1)
    stub.log(None, {"rollout/raw_reward": 1.0, "rollout/step": 1}, "rollout/step")  # the manager's
    stub.log = lambda *_: None  # each has its own process
    trainer.listen()
    stub.log(None, {"train/pg_loss": 0.5, "train/step": 0}, "train/step")
    manager.tell_validation(0, None, {"validation": {"samples": [sample(24)], "rewards": [1]}})

    lines = (tmp_path / "attempt-1.metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == steps


def test_what_runs_in_trls_interpreter_needs_nothing_else_of_ours(tmp_path: Path) -> None:
    laid(trial("trl"), tmp_path)
    numpy = Path(str(find_spec("numpy").origin)).parents[1]
    modules = [part[:-3].replace("/", ".") for part in (*PARTS, *DRIVER.parts) if part.endswith(".py")]
    modules = [module for module in modules if not module.endswith("__init__")]
    for own in ("callback", "rollouts"):  # which need torch and TRL: tests/trl imports them
        modules.remove(f"runner.trainers.trl.{own}")
    code = f"import sys; sys.path[:0] = [{str(tmp_path / 'parts')!r}]; sys.path.append({str(numpy)!r})\n"
    code += "".join(f"import {module}\n" for module in (*modules, "runner.trainers.trial_reward"))
    code += f"assert {str(tmp_path)!r} in runner.tasks.rewards.__file__"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


STUCK = "import os, time\ndef stuck():\n    open('pid', 'w').write(str(os.getpid()))\n"
STUCK += "    os.rename('pid', 'running')\n    time.sleep(600)\nstuck()\n"


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """Return the folder of a trial by TRL whose program says that it runs, and does nothing."""
    laid(trial("trl", machine={"gpus": 1}), tmp_path)
    (tmp_path / "train.py").write_text(STUCK)
    return tmp_path


def test_the_trainer_ends_when_whoever_started_it_is_gone(stuck: Path) -> None:
    started = f"import subprocess, time; subprocess.Popen([{sys.executable!r}, 'start.py'], start_new_session=True)"
    holder = subprocess.Popen([sys.executable, "-c", f"{started}; time.sleep(600)"], cwd=stuck)
    until((stuck / "running").exists)
    trainer = int((stuck / "running").read_text())
    holder.kill()
    holder.wait()
    until(lambda: not lives(trainer))


def test_a_trainer_that_hangs_shows_where(stuck: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "start.py"],
        cwd=stuck,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until((stuck / "running").exists)
    started.send_signal(signal.SIGABRT)
    assert " in stuck" in started.communicate(timeout=60)[1]
    assert started.returncode


@pytest.mark.parametrize("python", ["/nowhere/bin/python", sys.executable])
def test_an_environment_without_trl_is_said_to_be_none(python: str) -> None:
    (said,) = DRIVER.rehearse(trial("trl", trainer={"name": "trl", "python": python}))
    assert ("No such file" if python.startswith("/nowhere") else "No module named") in said


def test_a_problem_with_an_environment_of_skyrl_is_handed_on_with_its_fields() -> None:
    row_of = program(OWN / "skyrl" / "start.py").row_of
    assert row_of(3, {"prompt": "1+1=", "answer": "2"})["env_class"] == "rlplan"
    own = {"env_class": "search", "data_source": "searchR1_nq", "db_id": 7}
    row = row_of(3, {"prompt": "who?", "answer": "Ada", "extra": own})
    assert row.pop("prompt") == [{"role": "user", "content": "who?"}]
    assert (row.pop("data_source"), row.pop("number")) == ("rlplan", 3)  # by which the score is found
    assert row == {"env_class": "search", "reward_spec": {"method": "rule", "ground_truth": "Ada"}, "db_id": 7}
