"""What each named trainer is told: the files that are rendered for it, in twenty settings."""

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from budgets.errors import RlplanError
from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TaskChoice, TrialConfig, ValidationPlan
from runner.trainers.catalogue import driver_of
from tests.golden.commands import compact_json
from tests.runner.tasks.checkpoints import save_checkpoint
from tests.runner.trainers.conftest import CHATS, MODEL_ARGS
from tests.runner.trainers.standins import GPUS, attempt, launched, trial

ROOT = Path(__file__).parents[2]
NAMED = ("trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")
RECIPES = ("grpo", "easy", "hard", "dr-grpo", "gspo", "cispo", "dapo", "magistral", "minimax", "scalerl")
TWO_NODES = Machine(gpus=4, nodes=2, device="cuda", engine="vllm", weights="bfloat16")
# What is changed of a plain trial: of its configuration, and of the attempt.
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    **{f"recipe {name}": ({"recipe": name}, {}) for name in RECIPES},
    "two nodes": ({"machine": TWO_NODES}, {}),
    "one gpu": ({"machine": GPUS.model_copy(update={"gpus": 1})}, {"gpus": ("0", ""), "hosts": ("10.0.0.1",)}),
    "resumed": ({}, {"number": 2, "from_step": 6, "to_step": 12, "checkpoint": "checkpoint-00000006"}),
    "sizes": ({"rollouts_per_prompt": 16, "prompts_per_batch": 64}, {}),
    "seed": ({"seed": 3}, {}),
    "warm-up": ({"warmup_steps": 9}, {}),
    "short segment": ({}, {"to_step": 3}),
    "validation": ({"validation": ValidationPlan(problems=10, samples=4, every_rollouts=64)}, {}),
    "saves": ({"options": {"save_steps": 40}}, {}),
    "memory": ({"machine": GPUS.model_copy(update={"micro_batch_tokens": 4096})}, {}),
}
_PORT = re.compile(r'"port": \d+')  # made of the folder's path
# A trainer's own programs are no rendering: their sources have tests of their own.
PROGRAMS = (".py", ".sh")
MOST_LINES = 200  # of a file: of problems and their order the digest is enough


def rendered_trainer(trainer: str, folder: Path) -> str:
    """Return what a trainer is told in a plain trial, and what each setting changes of that."""
    chat = _furnish(folder)
    needed: dict[str, dict[str, Any]] = {
        "nemo-rl": {"checkout": "/opt/RL"},
        "slime": {"checkout": str(folder), "megatron": "/opt/Megatron-LM", "model_args": "small.sh"},
    }
    plain: list[str] = []
    parts: list[str] = []
    for name, (changes, begun) in SETTINGS.items():
        values = dict(changes)
        options = {**needed.get(trainer, {}), **values.pop("options", {})}
        recipe: Recipe | str = values.pop("recipe", "plain")
        if trainer in CHATS:
            values["task"] = chat
        lines = _rendered(trial(trainer, recipe, options, **values), begun, folder)
        plain = plain or lines
        changed = lines if name == "plain" else difflib.unified_diff(plain, lines, "plain", name, n=0, lineterm="")
        parts += [f"===== {name}", *changed, ""]
    return "\n".join(parts) + "\n"


def _furnish(folder: Path) -> TaskChoice:
    """Write a user's problems, a model with a chat template, a checkpoint and a script of slime's."""
    checkpoint = folder / "checkpoint-00000006"
    checkpoint.mkdir(parents=True)
    (checkpoint / "complete.json").write_text('{"response_tokens": 5.5}')
    rows = [{"prompt": f"what is 2 + {number}", "answer": "4"} for number in range(300)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "small.sh").write_text(MODEL_ARGS)
    model = save_checkpoint(folder / "model")
    return TaskChoice(name=str(folder / "sums.jsonl"), model=model, reward="exact", max_response_tokens=8)


def _rendered(config: TrialConfig, begun: dict[str, Any], folder: Path) -> list[str]:
    """Return the lines of a launch: its command, environment and files; or the reason why there is none."""
    if "checkpoint" in begun:
        begun = {**begun, "checkpoint": folder / begun["checkpoint"]}
    try:
        driver_of(config).check(config)
        launch = launched(config, attempt(folder / "trial", **begun))
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
