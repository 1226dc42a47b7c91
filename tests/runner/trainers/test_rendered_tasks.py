"""What each trainer is told of a task as people have it: a model of the hub, long prompts, sampling, adapters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from runner.ports.trial import TaskChoice, TrialConfig
from runner.trainers.catalogue import driver_of
from runner.trainers.verl.start import rows
from tests.runner.tasks.checkpoints import save_on_the_hub
from tests.runner.trainers.standins import GPUS, attempt, launched
from tests.runner.trainers.test_rendered_drivers import NAMED, rendered

Made = Callable[..., TrialConfig]
HUB = "Qwen/Qwen3-8B"
LONG = 4096  # tokens of the longest prompt


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskChoice:
    """Problems with long prompts, and a model of the hub whose tokenizer is in the cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    save_on_the_hub(tmp_path / "hub", HUB, context=40960)
    rows = [{"prompt": "what " * (LONG - 3 - number), "answer": "4"} for number in range(30)]
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return TaskChoice(name=str(tmp_path / "long.jsonl"), model=HUB, reward="exact", max_response_tokens=8)


MODEL_KEYS = {
    "trl": {"vllm_max_model_length": LONG + 8},
    "verl": {"actor_rollout_ref.model.path": HUB, "actor_rollout_ref.model.tokenizer_path": HUB}
    | {"data.max_prompt_length": str(LONG)},
    "prime-rl": {"model.name": HUB, "tokenizer.name": HUB, "seq_len": LONG + 8},
    "openrlhf": {"--actor.model_name_or_path": [HUB], "--data.max_len": [str(LONG + 8)]},
    "skyrl": {"trainer.policy.model.path": HUB, "trainer.max_prompt_length": LONG},
    "nemo-rl": {"policy.model_name": HUB, "policy.tokenizer.name": HUB, "policy.max_total_sequence_length": LONG + 8},
    "slime": {"--hf-checkpoint": [HUB]},
}


@pytest.mark.parametrize("trainer", NAMED)
def test_a_model_of_the_hub_is_handed_on_with_prompts_of_any_length(
    trainer: str, made: Made, own: TaskChoice, tmp_path: Path
) -> None:
    launch = launched(made(trainer, task=own), attempt(tmp_path))
    keys: dict[str, Any] = rendered(made(trainer, task=own), attempt(tmp_path))
    keys |= {"model": json.loads(launch.files["run.json"])["model"]} if trainer == "trl" else {}
    wanted = MODEL_KEYS[trainer] | ({"model": HUB} if trainer == "trl" else {})
    assert {key: keys.get(key) for key in wanted} == wanted
    assert launch.environment["HF_HUB_OFFLINE"] == "0"


TEMPLATE = '{% for m in messages %}<{{ m.role }}>{{ "\\n" }}{{ m.content }}{% endfor %}'  # with a backslash
TEMPLATED = {
    "trl": ("run.json", "chat_template"),
    "verl": ("overrides.json", "actor_rollout_ref.model.custom_chat_template"),
    "prime-rl": ("rl.json", "tokenizer.chat_template"),
    "openrlhf": ("tokenizer/chat_template.jinja", None),
    "skyrl": ("tokenizer/chat_template.jinja", None),
    "nemo-rl": ("nemo.json", "policy.tokenizer.chat_template"),
    "slime": ("train.jsonl", "prompt"),
}


@pytest.mark.parametrize("trainer", NAMED)
def test_a_system_prompt_and_a_chat_template_reach_the_trainer(
    trainer: str, made: Made, task: TaskChoice, tmp_path: Path
) -> None:
    (tmp_path / "template.jinja").write_text(TEMPLATE)
    changes = {"system_prompt": "be brief", "chat_template": str(tmp_path / "template.jinja")}
    config = made(trainer, task=task.model_copy(update=changes))
    files = launched(config, attempt(tmp_path)).files
    first = json.loads(files["problems.jsonl"].splitlines()[0])["prompt"]
    assert [each["role"] for each in first] == ["system", "user"]
    place, key = TEMPLATED[trainer]
    if trainer == "slime":  # which has no such flag: its prompts are written as the model is to see them
        said = json.loads(files[place].splitlines()[0])[key or ""]
        assert said == f"<system>\nbe brief<user>\n{first[1]['content']}"
    elif key is None:
        assert files[place] == TEMPLATE
    else:
        said = rendered(config, attempt(tmp_path)) | {"chat_template": json.loads(files.get("run.json", "{}")).get(key)}
        quoted = TEMPLATE if trainer != "verl" else f"'{TEMPLATE}'"
        assert said[key] == quoted
    if trainer == "nemo-rl":
        assert files["system.txt"] == "be brief"
        assert json.loads(files["train.jsonl"].splitlines()[0])["input"] == first[1]["content"]


ROLLOUT = "actor_rollout_ref.rollout"
SAMPLED = {  # temperature and top_p of the training, then of a validation
    "trl": ("temperature", "top_p", None, None),
    "verl": (
        f"{ROLLOUT}.temperature",
        f"{ROLLOUT}.top_p",
        f"{ROLLOUT}.val_kwargs.temperature",
        f"{ROLLOUT}.val_kwargs.top_p",
    ),
    "prime-rl": (
        "orchestrator.train.sampling.temperature",
        None,
        "orchestrator.eval.sampling.temperature",
        "orchestrator.eval.sampling.top_p",
    ),
    "openrlhf": ("--rollout.temperature", "--rollout.top_p", "--eval.temperature", None),
    "skyrl": (
        "generator.sampling_params.temperature",
        "generator.sampling_params.top_p",
        "generator.eval_sampling_params.temperature",
        "generator.eval_sampling_params.top_p",
    ),
    "nemo-rl": ("policy.generation.temperature", "policy.generation.top_p", None, None),
    "slime": ("--rollout-temperature", "--rollout-top-p", "--eval-temperature", "--eval-top-p"),
}
IN_RUN = {"trl": ("temperature", "top_p"), "openrlhf": ("validation_top_p",)}  # what our own programs do there


@pytest.mark.parametrize("trainer", NAMED)
def test_sampling_is_that_of_the_task(trainer: str, made: Made, task: TaskChoice, tmp_path: Path) -> None:
    wanted: list[Any] = [0.9, 0.8, 0.6, 0.95]
    changes: dict[str, Any] = dict(zip(("temperature", "top_p"), wanted, strict=False))
    if trainer == "prime-rl":
        with pytest.raises(InputError, match=r"top_p = 0\.8 with --trainer prime-rl: it trains with 1 alone"):
            rendered(made(trainer, task=task.model_copy(update=changes)), attempt(tmp_path))
        changes["top_p"] = wanted[1] = 1.0
    beside = {"validation_temperature": 0.6, "validation_top_p": 0.95}
    if trainer == "nemo-rl":
        with pytest.raises(InputError, match="samples a validation as it does the training"):
            rendered(made(trainer, task=task.model_copy(update=changes | beside)), attempt(tmp_path))
    else:
        changes |= beside
    config = made(trainer, task=task.model_copy(update=changes))
    keys = rendered(config, attempt(tmp_path))
    for key, value in zip(SAMPLED[trainer], wanted, strict=True):
        assert key is None or keys[key] in (value, str(value), [str(value)])
    if trainer in IN_RUN:
        run = json.loads(launched(config, attempt(tmp_path)).files["run.json"])
        said = [{**run, **run["validation"]}[name] if trainer == "trl" else run[name] for name in IN_RUN[trainer]]
        assert said == [beside[name if name in beside else f"validation_{name}"] for name in IN_RUN[trainer]]


ADAPTED = {
    "verl": {
        "actor_rollout_ref.model.lora_rank": "32",
        "actor_rollout_ref.model.lora_alpha": "64",
        f"{ROLLOUT}.load_format": "safetensors",
    },
    "prime-rl": {"trainer.model.lora.rank": 32, "trainer.model.lora.alpha": 64.0},
    "skyrl": {"trainer.policy.model.lora.rank": 32, "trainer.policy.model.lora.alpha": 64},
    "nemo-rl": {
        f"policy.dtensor_cfg.lora_cfg.{name}": value
        for name, value in {"enabled": True, "dim": 32, "alpha": 64, "use_triton": True}.items()
    },
}


@pytest.mark.parametrize("trainer", NAMED)
def test_adapters_are_trained_or_refused(trainer: str, made: Made, tmp_path: Path) -> None:
    config = made(trainer, machine=GPUS.model_copy(update={"lora_rank": 32, "lora_alpha": 64}))
    if trainer in ("openrlhf", "slime"):
        with pytest.raises(InputError, match="lora_rank"):
            driver_of(config).check(config)
        return
    driver_of(config).check(config)
    if trainer == "trl":
        assert json.loads(launched(config, attempt(tmp_path)).files["run.json"])["lora"] == {"r": 32, "lora_alpha": 64}
    else:
        keys = rendered(config, attempt(tmp_path))
        assert {key: keys.get(key) for key in ADAPTED[trainer]} == ADAPTED[trainer]
    assert not any("lora" in key for key in rendered(made(trainer), attempt(tmp_path)))


def test_tools_of_verls_agent_loop_pass_through_with_what_each_problem_gives_them(
    made: Made, task: TaskChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"prompt": "what is 2 + 2", "answer": "4", "tools_kwargs": {"run": {"create_kwargs": {"seed": 1}}}}
    lines = [json.dumps({**row, "prompt": f"{row['prompt']} + {number}"}) + "\n" for number in range(30)]
    (tmp_path / "tools.jsonl").write_text("".join(lines))
    loop = {
        f"{ROLLOUT}.multi_turn.enable": True,
        f"{ROLLOUT}.multi_turn.function_tool_path": "/tools.py",
        f"{ROLLOUT}.agent.default_agent_loop": "tool_agent",
    }
    own = task.model_copy(update={"name": str(tmp_path / "tools.jsonl")})
    config = made("verl", task=own, options={"settings": loop})
    files = launched(config, attempt(tmp_path)).files
    assert {f"{ROLLOUT}.multi_turn.enable=true", f"{ROLLOUT}.agent.default_agent_loop=tool_agent"} <= set(
        json.loads(files["overrides.json"])
    )
    for name in ("reward.json", "order.json", "problems.jsonl"):
        (tmp_path / name).write_text(files[name])
    monkeypatch.chdir(tmp_path)
    train, validation = rows()
    assert all(each["extra_info"]["tools_kwargs"] == row["tools_kwargs"] for each in (train[0], *validation))
