"""What rlplan knows of slime: recipes, its command line by recorded facts, what it tells, its checkpoints."""

import asyncio
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from budgets.errors import InputError
from planner.logs.names import SLIME
from planner.recipes import load_recipe, recipe_names
from planner.recipes.schema import Advantage
from runner.grpo.advantages import advantages
from runner.ports.trial import Machine, TaskChoice, TrialConfig
from runner.trainers.ability import degree
from runner.trainers.driving import opened_task
from runner.trainers.facts import facts_of
from runner.trainers.slime.configuration import flags_of
from runner.trainers.slime.driver import SlimeDriver
from runner.trainers.told import readings
from tests.runner.trainers.standins import attempt, driven

SCRIPT = """MODEL_ARGS=(
   --swiglu
   --num-layers 2  # of a small one
   --rotary-base "${MODEL_ARGS_ROTARY_BASE:-1000000}"
)
"""


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "small.sh").write_text(SCRIPT)
    return {"checkout": str(tmp_path), "megatron": "/opt/Megatron-LM", "model_args": "small.sh"}


def trial(task: TaskChoice, options: dict[str, Any], recipe: str = "hard", **changes: Any) -> TrialConfig:
    return driven("slime", task, recipe, **{"options": options, **changes})


def laid(config: TrialConfig, folder: Path, **changes: Any) -> dict[str, Any]:
    """Lay an attempt's files, and return what is told to start.py."""
    launch = SlimeDriver().launch(config, attempt(folder, **changes), 0)
    assert launch is not None
    for name, text in launch.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return dict(json.loads(launch.files["run.json"]))


def valued(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_that_is_accepted_becomes_flags_that_it_has(
    recipe: str, task: TaskChoice, options: dict[str, str], tmp_path: Path
) -> None:
    config = trial(task, options, recipe)
    assert degree(SlimeDriver().differences(config.recipe)) != "refused"
    SlimeDriver().check(config)
    flags = [word for word in laid(config, tmp_path)["words"] if word.startswith("--")]
    facts_of("slime").require(dict.fromkeys(flags))
    assert len(set(flags)) == len(flags)


def test_a_mistyped_flag_of_ours_is_caught(task: TaskChoice, options: dict[str, str], tmp_path: Path) -> None:
    config = trial(task, options)
    flags = flags_of(config, opened_task(config), attempt(tmp_path))
    assert [flag for flag in flags if facts_of("slime").knows(f"{flag}x")] == []
    wrong = {**options, "settings": {"--max-token-per-gpu": 5}}
    with pytest.raises(InputError, match="did you mean '--max-tokens-per-gpu'"):
        SlimeDriver().check(trial(task, wrong))


def test_a_trial_is_told_in_its_words(task: TaskChoice, options: dict[str, str], tmp_path: Path) -> None:
    settings = {"settings": {"sglang-mem-fraction-static": 0.6, "--max-tokens-per-gpu": 99}}
    words = laid(trial(task, {**options, **settings}, "gspo", prompts_per_batch=3), tmp_path)["words"]

    assert words[:5] == ["--swiglu", "--num-layers", "2", "--rotary-base", "1000000"]
    assert valued(words, "--n-samples-per-prompt") == "4"
    assert valued(words, "--rollout-batch-size") == "12"  # four updates of a batch
    assert valued(words, "--global-batch-size") == "12"
    assert valued(words, "--num-rollout") == "2"
    assert valued(words, "--advantage-estimator") == "gspo"
    assert valued(words, "--lr-decay-style") == "constant"
    assert valued(words, "--lr-decay-iters") == "1000000"  # else a segment's length, which a warm-up may not pass
    assert valued(words, "--load") == valued(words, "--save")
    assert valued(words, "--max-tokens-per-gpu") == "99"
    assert valued(words, "--sglang-mem-fraction-static") == "0.6"
    assert "--use-kl-loss" not in words


def test_a_checkpoint_counts_with_its_place_in_the_prompts(
    task: TaskChoice, options: dict[str, str], tmp_path: Path
) -> None:
    for batch in (1, 3, 5):
        (tmp_path / f"checkpoints/iter_{batch:07d}").mkdir(parents=True)
    (tmp_path / "checkpoints/rollout").mkdir()
    for batch in (1, 3):
        (tmp_path / f"checkpoints/rollout/global_dataset_state_dict_{batch}.pt").touch()
    assert [each.step for each in SlimeDriver().checkpoints(trial(task, options), tmp_path)] == [4, 2]
    assert laid(trial(task, options), tmp_path, from_step=4)["from_batch"] == 4  # and its tracker is set to 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_args": "none.sh"}, "No such file"),
        ({"megatron": None}, "megatron"),
        ({"settings": {"--lr": 1}}, "rlplan sets that itself"),
    ],
)
def test_options_that_it_cannot_take_are_refused(
    changes: dict[str, Any], named: str, task: TaskChoice, options: dict[str, str]
) -> None:
    with pytest.raises(InputError, match=named):
        SlimeDriver().check(trial(task, {**options, **changes}))


def test_layouts_and_tasks_that_it_cannot_take_are_refused(task: TaskChoice, options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="must be a multiple of the GPUs"):
        SlimeDriver().check(trial(task, options, machine=Machine(gpus=5)))
    with pytest.raises(InputError, match="a tokenizer of its own"):
        SlimeDriver().check(trial(TaskChoice(name="sum-easy"), options))


def test_it_has_a_ray_of_its_own_and_finds_our_adapter(
    task: TaskChoice, options: dict[str, str], tmp_path: Path
) -> None:
    launch = SlimeDriver().launch(trial(task, options), attempt(tmp_path), 0)
    assert launch is not None
    assert launch.argv[1].endswith("in_own_ray.py")
    assert launch.environment["PYTHONPATH"].split(":")[:2] == [str(tmp_path), str(tmp_path / "parts")]


@pytest.fixture
def adapter(task: TaskChoice, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return what slime would import from a trial's folder."""
    config = trial(task, options, "dapo", prompts_per_batch=1)
    laid(config, tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = spec_from_file_location("rlplan_slime", tmp_path / "rlplan_slime.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_a_reward_is_shaped_in_training_and_plain_in_a_validation(adapter: ModuleType) -> None:
    def worth(number: int, response: str) -> float:
        return float(asyncio.run(adapter.reward(None, sample(number, response))))

    assert (worth(0, "4"), worth(0, "5")) == (1.0, -1.0)
    assert (worth(24, "4"), worth(24, "5")) == (1.0, 0.0)


def test_its_advantages_are_ours_and_truncated_responses_are_left_out(adapter: ModuleType) -> None:
    worths = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0]
    samples = [sample(0, group=place % 2, worth=worth) for place, worth in enumerate(worths)]
    samples[2].status = SimpleNamespace(name="TRUNCATED")

    rewards, found = adapter.advantages_of(None, samples)

    assert rewards == worths
    expected = advantages(torch.tensor(worths[0::2] + worths[1::2]), 4, Advantage())
    assert found == pytest.approx([*torch.stack([expected[:4], expected[4:]], dim=1).flatten().tolist()])
    assert [each.remove_sample for each in samples] == [place == 2 for place in range(8)]


def test_what_it_logs_is_told_by_the_updates_that_were_done(
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
    begun, base, made, trained, scored = [reading for line in lines for reading in readings(line, SLIME, 16)]
    assert (begun.step, base.step, made.step, trained.step, scored.step) == (0, 0, 16, 16, 16)
    assert (base.score, made.response_tokens, trained.metrics["loss"], scored.score) == (0.25, 7.0, 0.5, 0.25)


def test_what_it_does_of_a_recipe_is_said_key_by_key() -> None:
    known = {str(each).partition(" = ")[0] for each in SlimeDriver().differences(load_recipe("hard"))}
    assert known == {"optimizer.warmup_steps", "precision.fp32_head"}
