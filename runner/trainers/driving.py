"""What the drivers of named trainers do alike: a recipe as it is done, settings, files, the start, checkpoints."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from budgets.errors import InputError
from planner.checking import explained
from planner.recipes.schema import Recipe
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.tasks.opening import open_task
from runner.tasks.tokenizers import ChatTokenizer, character_tokenizer_files
from runner.trainers.ability import Difference, done_as
from runner.trainers.driver import Attempt, Checkpoint, Launch
from runner.trainers.laying import REWARD_PARTS, parts, problem_lines, reward_of
from runner.trainers.own_ray import in_own_ray

Options = TypeVar("Options", bound=BaseModel)

STEP = "{step}"
_LONGEST = 600.0  # seconds, in which an environment on slow storage has been read
REWARD, PROBLEMS = "reward.json", "problems.jsonl"
_JUDGE_PARTS = (*REWARD_PARTS, "runner/trainers/__init__.py", "runner/trainers/rewarding.py")


def as_done(config: TrialConfig, trainer: str, judge: Callable[[Recipe], Sequence[Difference]]) -> TrialConfig:
    """Return the trial with the recipe as the trainer does it; InputError where that is not what is wanted."""
    assert config.trainer is not None
    recipe = done_as(trainer, config.recipe, judge, approximate=config.trainer.approximate)
    return config.model_copy(update={"recipe": recipe})


def options_in(config: TrialConfig, model: type[Options]) -> Options:
    """Return the checked `[trainer.options]` of a trial."""
    assert config.trainer is not None
    try:
        return model.model_validate(config.trainer.options)
    except ValidationError as error:
        raise explained(error, model, {}, f"[trainer.options] of {config.trainer.name}") from error


def refuse(config: TrialConfig, remedies: Mapping[str, str]) -> None:
    """Refuse what of a trial's configuration this trainer cannot do, each by its dotted key with what to do instead."""
    assert config.trainer is not None
    for key, remedy in remedies.items():
        value: Any = config
        for part in key.split("."):
            value = getattr(value, part)
        if value:
            raise InputError(f"{key} with --trainer {config.trainer.name}: {remedy}")


def opened_task(config: TrialConfig) -> Task:
    """Open the task; its reward runs in the trainer's own environment."""
    task = open_task(config.task, config.seed, config.validation.problems)
    task.reward.close()
    return task


def warmup_steps(config: TrialConfig) -> int:
    """Return the updates over which the rate rises."""
    own = config.recipe.optimizer.warmup_steps
    return own if config.warmup_steps is None else config.warmup_steps


def validation_steps(config: TrialConfig) -> int:
    """Return the updates between validations."""
    return max(1, config.validation.every_rollouts // config.rollouts_per_step)


def merged(ours: Mapping[str, Any], settings: Mapping[str, Any], free: Collection[str] = ()) -> dict[str, Any]:
    """Return our keys with the user's; InputError for one that is ours, or above or below one, and not `free`."""
    fixed = [key for key in ours if key not in free]
    if taken := sorted(key for key in settings if any(stands_with(key, each) for each in fixed)):
        raise InputError(
            f"[trainer.options.settings] {', '.join(taken)}: rlplan sets that itself, by the recipe, the allocation "
            "and the machine: leave it out"
        )
    return {**ours, **settings}


def judged_files(config: TrialConfig, task: Task) -> dict[str, str]:
    """Return our reward as `rewarding.py` uses it in the trainer's own interpreter, the problems, and a tokenizer.

    Their order in the file is: those to train on, then those to validate on.
    """
    tokenizer = character_tokenizer_files() if config.task.name in EMBEDDED else {}
    given = {
        "reward": reward_of(config),
        "shaping": config.recipe.rewards.model_dump(),
        "longest": task.max_response_tokens,
        "seed": config.seed,
        "train_problems": len(task.train),
        "paths": [os.getcwd()],  # for a reward that is a module of the user's
    }
    return {
        **parts(_JUDGE_PARTS),
        **{f"tokenizer/{name}": text for name, text in tokenizer.items()},
        PROBLEMS: problem_lines(config, task),
        REWARD: json.dumps(given, indent=1),
    }


def has_chat(task: Task) -> bool:
    """Whether the model has a chat template, so that a prompt that is a text becomes a turn of the user."""
    return isinstance(task.tokenizer, ChatTokenizer) and task.tokenizer.has_template


def tokenizer_of(config: TrialConfig, task: Task, folder: Path) -> str:
    """Return the folder of the tokenizer: the model's own, or that which `judged_files` lays for an embedded task."""
    return str(folder / "tokenizer" if config.task.name in EMBEDDED else Path(task.model_path).absolute())


def started(
    config: TrialConfig,
    attempt: Attempt,
    rank: int,
    argv: Sequence[str],
    files: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    *,
    own_ray: bool = False,
    everywhere: bool = False,
) -> Launch | None:
    """Return what to start on a host: the command on the head, or on every one, maybe in a Ray of the trial's own.

    The first word of `argv` is an argument of the trainer's interpreter.
    """
    assert config.trainer is not None
    if rank and not (own_ray or everywhere):
        return None
    python = config.trainer.python or "python3"
    given = {"OMP_NUM_THREADS": str(config.machine.threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    given |= environment or {}
    if rank < len(attempt.gpus) and attempt.gpus[rank]:
        given["CUDA_VISIBLE_DEVICES"] = attempt.gpus[rank]
    launch = Launch((python, *argv), dict(files), given)
    if not own_ray:
        return launch
    gpus = config.machine.gpus // config.machine.nodes if config.machine.device == "cuda" else 0
    return in_own_ray(launch, attempt, rank, python, gpus)


def asked_itself(config: TrialConfig, files: Mapping[str, str], *argv: str) -> tuple[int, str]:
    """Have a trainer's own environment look at the files of a trial; return how it ended, and what it printed.

    The first word is an argument of the trainer's interpreter.
    """
    assert config.trainer is not None
    launcher = shlex.split(config.trainer.launcher or "")
    with TemporaryDirectory(prefix="rlplan-rehearsal-") as place:
        for name, text in files.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        command = [*launcher, config.trainer.python or "python3", *argv]
        try:
            environment = {**os.environ, "PYTHONPATH": str(Path(place, "parts"))}
            ended = subprocess.run(
                command, cwd=place, env=environment, capture_output=True, text=True, timeout=_LONGEST, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, f"{shlex.join(command)}: {error}"
    return ended.returncode, f"{ended.stdout}\n{ended.stderr}".strip()


def numbered(folder: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Yield what has a name such as `checkpoint-{step}`, relative to the folder, with its number as it is written.

    `*` stands for any name.
    """
    before, _, after = pattern.partition(STEP)
    expression = re.compile(f"{_glob(before)}(\\d+){_glob(after)}")
    for path in folder.glob(pattern.replace(STEP, "*")):
        if match := expression.fullmatch(str(path.relative_to(folder))):
            yield match[1], path


def complete(folder: Path, pattern: str, tracker: str | None = None, holds: Sequence[str] = ()) -> list[Checkpoint]:
    """Return the complete checkpoints, the newest first: those that hold what they should, up to the tracker's step.

    The tracker is written after a checkpoint, so that one beyond it is torn. One that is missing, empty or torn itself
    counts for nothing: the newest that holds everything is then taken for complete. An attempt begins by writing the
    step that it goes on from into it (`tracked`), else what an earlier one got to would vouch for what it writes anew.
    """
    newest = None
    if tracker is not None:
        with suppress(OSError, ValueError):
            newest = int((folder / tracker).read_text(encoding="utf-8"))
    found = [
        Checkpoint(int(number), path)
        for number, path in numbered(folder, pattern)
        if all((path / name).exists() for name in holds) and (newest is None or int(number) <= newest)
    ]
    if newest is not None and tracker is not None:  # a copy of the checkpoint without it would be taken for torn
        found = [replace(each, beside=(folder / tracker,)) for each in found]
    return sorted(found, key=lambda each: -each.step)


def tracked(tracker: str, attempt: Attempt) -> dict[str, str]:
    """Return the tracker as a file with the step that an attempt goes on from."""
    return {tracker: str(attempt.from_step)}


def stands_with(given: str, ours: str) -> bool:
    """Whether a key is one of ours, or stands above or below it."""
    given, ours = given.lstrip("+~-"), ours.lstrip("+~-")
    return given == ours or given.startswith(f"{ours}.") or ours.startswith(f"{given}.")


def _glob(text: str) -> str:
    return "[^/]*".join(re.escape(part) for part in text.split("*"))
