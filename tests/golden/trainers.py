"""What each named trainer is told: the files that are rendered for it, over recipes, machines, sizes and tasks."""

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

from budgets.errors import RlplanError
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.catalogue import driver_of
from tests.golden.commands import compact_json
from tests.runner.tasks.checkpoints import save_checkpoint, save_on_the_hub
from tests.runner.trainers.conftest import CHATS, MODEL_ARGS, save_shape
from tests.runner.trainers.standins import GPUS, attempt, launched, trial

ROOT = Path(__file__).parents[2]
NAMED = ("trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")
TEMPLATE = '{% for m in messages %}<{{ m.role }}>{{ "\\n" }}{{ m.content }}{% endfor %}'  # with a backslash
RECIPES = ("grpo", "easy", "hard", "dr-grpo", "gspo", "cispo", "dapo", "magistral", "minimax", "scalerl")
TWO_NODES = Machine(gpus=4, nodes=2, device="cuda", engine="vllm", weights="bfloat16")
HUB = "Qwen/Qwen3-8B"


def gpus(count: int) -> Machine:
    """Return so many GPUs, at most eight a node."""
    return Machine(gpus=count, nodes=max(1, count // 8), device="cuda", engine="vllm", weights="bfloat16")


def sized(size: str, tokens: int = 8192) -> dict[str, Any]:
    """Return what is changed of a trial for a model of such a size, with groups of eight rollouts of 8,192 tokens."""
    return {"task": {"model": f"<folder>/{size}", "max_response_tokens": tokens}, "rollouts_per_prompt": 8}


def settings(keys: dict[str, Any]) -> dict[str, Any]:
    """Return what is changed of a trial for a user's own keys of its trainer."""
    return {"options": {"settings": keys}}


# What is changed of a plain trial: of its configuration (of its task in `task`), and of the attempt.
Setting = tuple[dict[str, Any], dict[str, Any]]
EIGHT = ValidationPlan(samples=2, every_rollouts=48)
NEW_SAMPLING = {"temperature": 0.9, "validation_temperature": 0.6, "validation_top_p": 0.95}
SETTINGS: dict[str, Setting] = {
    "plain": ({}, {}),
    **{f"recipe {name}": ({"recipe": name}, {}) for name in RECIPES},
    "two nodes": ({"machine": TWO_NODES}, {}),
    **{f"{name} on two nodes": ({"recipe": name, "machine": TWO_NODES}, {}) for name in ("magistral", "scalerl")},
    "one gpu": ({"machine": GPUS.model_copy(update={"gpus": 1})}, {"gpus": ("0", ""), "hosts": ("10.0.0.1",)}),
    "resumed": ({}, {"number": 2, "from_step": 6, "to_step": 12, "checkpoint": "checkpoint-00000006"}),
    "gspo resumed": (
        {"recipe": "gspo"},
        {"number": 2, "from_step": 4, "to_step": 10, "checkpoint": "checkpoint-00000006"},
    ),
    "gspo of three prompts": ({"recipe": "gspo", "prompts_per_batch": 3, "validation": EIGHT}, {}),
    "sizes": ({"rollouts_per_prompt": 16, "prompts_per_batch": 64}, {}),
    "seed": ({"seed": 3}, {}),
    "warm-up": ({"warmup_steps": 9}, {}),
    # Nothing that a trainer computes may depend on where a segment ends.
    "warm-up in a long segment": ({"warmup_steps": 9}, {"to_step": 400}),
    "short segment": ({}, {"to_step": 3}),
    "validation": ({"validation": ValidationPlan(problems=10, samples=4, every_rollouts=64)}, {}),
    "saves": ({"options": {"save_steps": 40}}, {}),
    "memory": ({"machine": GPUS.model_copy(update={"micro_batch_tokens": 4096})}, {}),
    "task": ({"task": {}}, {}),
    "adapters": ({"machine": GPUS.model_copy(update={"lora_rank": 32, "lora_alpha": 64})}, {}),
    "sampling": ({"task": {"temperature": 0.9, "top_p": 0.8}}, {}),
    "sampling of a validation": ({"task": NEW_SAMPLING}, {}),
    "template": ({"task": {"system_prompt": "be brief", "chat_template": "<folder>/template.jinja"}}, {}),
    "model of the hub, long prompts": ({"task": {"name": "<folder>/long.jsonl", "model": HUB}}, {}),
    "8b on 4 GPUs": ({"machine": gpus(4), **sized("8b")}, {}),
    "8b on 8 GPUs": ({"machine": gpus(8), **sized("8b")}, {}),
    "72b on 2 GPUs": ({"machine": gpus(2), **sized("72b")}, {}),
}
# What one of them alone can be told: its tracker, a key of the user's, a split of the GPUs.
ENVIRONMENT = {"HF_HUB_OFFLINE": "0", "OMP_NUM_THREADS": "8"}  # of a trial with a tracker; the user's wins
TRACKED = {"folder": "sweep-3/n4-B8-s0/trainer"}
OF_ONE: dict[str, dict[str, Setting]] = {
    "trl": {
        "tracker": (settings({"report_to": "wandb"}), TRACKED),
        "user's own": ({**settings({"activation_checkpointing": False}), "machine": gpus(4), **sized("8b")}, {}),
        "six prompts": ({"prompts_per_batch": 6, "machine": Machine(gpus=2, micro_batch_tokens=90)}, {}),
    },
    "verl": {
        "tracker": (settings({"trainer.logger": ["console", "wandb"]}), TRACKED),
        "user's own": (settings({"actor_rollout_ref.model.use_fused_kernels": False, "reward.num_workers": 4}), {}),
        "dapo saves": ({"recipe": "dapo", "options": {"save_steps": 40}}, {}),
        "32b with adapters": (
            {**settings({"actor_rollout_ref.model.lora_rank": 32}), "machine": gpus(2), **sized("32b")},
            {},
        ),
    },
    "prime-rl": {
        "tracker": (settings({"trainer.monitors.wandb.project": "maths"}), TRACKED),
        "user's own": (settings({"trainer.model.cp": 2}), {}),
        "no warm-up": ({"warmup_steps": 0}, {}),
    },
    "openrlhf": {
        "tracker": (settings({"logger.wandb.key": "from-environment"}), TRACKED),
        "user's own": ({**settings({"ds.zero_stage": 2}), "machine": gpus(4), **sized("8b")}, {}),
        "two GPUs of vLLM": ({"options": {"vllm_gpus": 2}, "machine": GPUS.model_copy(update={"gpus": 10})}, {}),
        "one engine over nodes": ({"options": {"tensor_parallel": 16}, "machine": gpus(16), **sized("72b")}, {}),
        "long responses": ({"machine": gpus(1), **sized("8b", 30_000)}, {}),
    },
    "skyrl": {
        "tracker": (settings({"trainer.logger": "wandb", "trainer.project_name": "maths"}), TRACKED),
        "user's own": (settings({"trainer.policy.fsdp_config.cpu_offload": True, "generator.max_turns": 4}), {}),
    },
    "nemo-rl": {
        "tracker": (settings({"logger.wandb_enabled": True}), TRACKED),
        "user's own": (settings({"policy.dtensor_cfg.tensor_parallel_size": 2}), {}),
    },
    "slime": {
        "tracker": (settings({"use-wandb": True}), TRACKED),
        "user's own": (settings({"sglang-mem-fraction-static": 0.6, "--max-tokens-per-gpu": 99}), {}),
        "three GPUs train": ({"recipe": "scalerl", "options": {"train_gpus": 3}, "prompts_per_batch": 6}, {}),
    },
}
_PORT = re.compile(r'"port": \d+')  # made of the folder's path
# A trainer's own programs are no rendering: their sources have tests of their own.
PROGRAMS = (".py", ".sh")
MOST_LINES = 200  # of a file: of problems and their order the digest is enough


def rendered_trainer(trainer: str, folder: Path) -> str:
    """Return what a trainer is told in a plain trial, and what each setting changes of that.

    Settings of a user's own task are held against the plain one of them.
    """
    chat = _furnish(folder)
    needed: dict[str, dict[str, Any]] = {
        "nemo-rl": {"checkout": "/opt/RL"},
        "slime": {"checkout": str(folder), "megatron": "/opt/Megatron-LM", "model_args": "small.sh"},
    }
    plain: dict[bool, list[str]] = {}  # with a trainer's first task, and with a task of one's own
    parts: list[str] = []
    for name, (changes, begun) in {**SETTINGS, **OF_ONE[trainer]}.items():
        values = dict(changes)
        options = {**needed.get(trainer, {}), **values.pop("options", {})}
        recipe: Recipe | str = values.pop("recipe", "plain")
        own_task = "task" in values
        if trainer in CHATS or own_task:
            texts = {key: _placed(value, folder) for key, value in values.get("task", {}).items()}
            values["task"] = chat.model_copy(update=texts)
        config = trial(trainer, recipe, options, **values)
        if name == "tracker" and config.trainer is not None:
            trainer_choice = config.trainer.model_copy(update={"environment": ENVIRONMENT})
            config = config.model_copy(update={"trainer": trainer_choice})
        with mock.patch("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub")):
            lines = _rendered(config, begun, folder)
        if not plain or lines[0].startswith("refused: "):
            parts += [f"===== {name}", *lines, ""]
        else:
            before = plain.get(own_task, plain[False])
            parts += [f"===== {name}", *difflib.unified_diff(before, lines, "plain", name, n=0, lineterm=""), ""]
        plain.setdefault(own_task, lines)
    return "\n".join(parts) + "\n"


def _placed(value: Any, folder: Path) -> Any:
    return value.replace("<folder>", str(folder)) if isinstance(value, str) else value


def _furnish(folder: Path) -> TaskChoice:
    """Write a user's problems, models, a chat template, a checkpoint and a script of slime's."""
    checkpoint = folder / "checkpoint-00000006"
    checkpoint.mkdir(parents=True)
    (checkpoint / "complete.json").write_text('{"response_tokens": 5.5}')
    sums = [f"what is 2 + {number}" for number in range(300)]
    for name, prompts in {"sums": sums, "long": ["what " * 4093, *sums]}.items():
        rows = (json.dumps({"prompt": prompt, "answer": "4"}) + "\n" for prompt in prompts)
        (folder / f"{name}.jsonl").write_text("".join(rows))
    (folder / "small.sh").write_text(MODEL_ARGS)
    (folder / "template.jinja").write_text(TEMPLATE)
    save_on_the_hub(folder / "hub", HUB, context=40960)
    for size in ("8b", "32b", "72b"):
        save_shape(folder / size, size)
    model = save_checkpoint(folder / "model")
    return TaskChoice(name=str(folder / "sums.jsonl"), model=model, reward="exact", max_response_tokens=8)


def _rendered(config: TrialConfig, begun: dict[str, Any], folder: Path) -> list[str]:
    """Return the lines of a launch: its command, environment and files; or the reason why there is none."""
    begun = {"folder": folder / begun.get("folder", "trial"), **{key: begun[key] for key in begun if key != "folder"}}
    if "checkpoint" in begun:
        begun["checkpoint"] = folder / begun["checkpoint"]
    try:
        driver_of(config).check(config)
        launch = launched(config, attempt(**begun))
    except RlplanError as error:
        return [_masked(f"refused: {error}", folder)]
    lines = ["command: " + " ".join(launch.argv)]
    lines += [f"{name}={value}" for name, value in sorted(launch.environment.items())]
    for name, content in sorted(launch.files.items()):
        program = name.endswith(PROGRAMS)
        lines += [f"--- {name}", *(["(a program)"] if program else _content(_masked(content, folder)))]
    return [_masked(line, folder) for line in lines]


def _masked(text: str, folder: Path) -> str:
    """Return text without what differs from place to place: the folder, this checkout, and a port made of them."""
    return _PORT.sub('"port": 0', text.replace(str(folder), "<folder>").replace(str(ROOT), "<rlplan>"))


def _content(content: str) -> list[str]:
    """Return a file line by line, JSON a value a line."""
    try:
        lines = compact_json(json.loads(content)).splitlines()
    except json.JSONDecodeError:
        lines = content.splitlines()
    if len(lines) > MOST_LINES:
        return [f"({len(lines)} lines, sha256 {hashlib.sha256(content.encode()).hexdigest()[:16]})"]
    return lines
