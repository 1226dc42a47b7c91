"""What the drivers of trainers do alike: options, settings, files, the start, checkpoints."""

import json
import math
import os
import re
import shlex
import subprocess
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from budgets.errors import InputError
from planner.checking import explained
from planner.config.trainer import Patience
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.hub import is_hub_name
from runner.tasks.opening import open_task, without_problems
from runner.tasks.tokenizers import ChatTokenizer
from runner.trainers.driver import Attempt, Checkpoint, Launch
from runner.trainers.failures import masked
from runner.trainers.in_own_ray import port_range

Options = TypeVar("Options", bound=BaseModel)

STEP = "{step}"
_PORTS = 20_000, 29_999  # where the machines of a trial meet, unless the user names a range
_LONGEST = 600.0  # seconds, in which an environment on slow storage has been read
_IN_OWN_RAY = Path(__file__).with_name("in_own_ray.py")


class DecidedError(InputError):
    """Settings of the user's are rlplan's to decide; `keys` are which."""

    def __init__(self, message: str, keys: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.keys = keys


def options_in(config: TrialConfig, model: type[Options], where: str | None = None) -> Options:
    """Return the checked `[trainer.options]` of a trial; ConfigError says what is wrong with them, and where."""
    try:
        return model.model_validate(config.driven_by.options)
    except ValidationError as error:
        raise explained(error, model, {}, where or f"[trainer.options] of {config.driven_by.name}") from error


def refuse(config: TrialConfig, title: str, remedies: Mapping[str, str]) -> None:
    """Refuse what of a trial's configuration this trainer cannot do, each by its dotted key with what to do instead.

    None has a batch that grows, and none a simulated world.
    """
    none = {"growth": f"{title}'s batch is constant: leave it out"}
    none["simulation"] = f"{title} trains a model: use --trainer standin"
    for key, remedy in (none | dict(remedies)).items():
        value: Any = config
        for part in key.split("."):
            value = getattr(value, part)
        if value and value != "none":
            raise InputError(f"{key} with --trainer {config.driven_by.name}: {remedy}")


def require_chat(task: Task, title: str, instead: str = "take a model that has one") -> None:
    """Refuse a model without a chat template, where the trainer makes every prompt a turn of a chat."""
    if not has_chat(task):
        raise InputError(f"{task.model_path} has no chat template, and {title} asks in chats: {instead}")


def require_equal_shares(config: TrialConfig, gpus: int) -> None:
    """Refuse an update whose rollouts cannot be shared out to the GPUs that train, naming the nearest that can."""
    made, n, B = config.rollouts_per_step, config.rollouts_per_prompt, config.prompts_per_batch
    if made % gpus:
        step = gpus // math.gcd(n, gpus)
        near = sorted({max(step, B // step * step), (B // step + 1) * step})
        fewer = max(count for count in range(1, gpus) if made % count == 0)
        raise InputError(
            f"n = {n} · B = {B} = {made} rollouts on {gpus} GPUs: each has as many of them in an update. Use "
            f"B = {' or '.join(map(str, near))}, or {fewer} GPUs"
        )


def rollouts_per_pass(config: TrialConfig, task: Task, tokens: int, wanted: int | None, apart: int = 0) -> int:
    """Return as many as are wanted, or else as so many tokens allow; all passes of a GPU are of that size.

    `apart` GPUs do not train.
    """
    each = config.rollouts_per_step // (config.machine.gpus - apart)
    most = wanted or max(1, tokens // (task.max_prompt_tokens + task.max_response_tokens))
    return max(size for size in range(1, min(each, most) + 1) if each % size == 0)


def opened_task(config: TrialConfig) -> Task:
    """Open the task; its reward runs in the trainer's own environment, which may have the problems too."""
    if not config.driven_by.takes_problems:
        return without_problems(config.task)
    task = open_task(config.task, config.seed, config.validation.problems)
    task.reward.close()
    return task


def validation_steps(config: TrialConfig) -> int:
    """Return the updates between validations."""
    return max(1, config.validation.every_rollouts // config.rollouts_per_step)


def save_steps(config: TrialConfig, attempt: Attempt, asked: int | None = None) -> int:
    """Return the updates between saves: those asked for, else as many as fit, on a CPU at most between validations.

    A checkpoint of a model on GPUs may take longer to write than the steps between two validations. Where the trainer
    goes on beyond its segment's end, each validation comes with a save, if that does not double the saves.
    """
    every = validation_steps(config)
    if attempt.trains_on:
        most = min(every, asked or attempt.save_steps or every)
        return next((steps for steps in range(most, most // 2, -1) if every % steps == 0), most)
    if asked is not None or attempt.save_steps is None:
        return asked or every
    return attempt.save_steps if config.machine.device == "cuda" else min(every, attempt.save_steps)


def merged(ours: Mapping[str, Any], settings: Mapping[str, Any], free: Collection[str] = ()) -> dict[str, Any]:
    """Return our keys with the user's; InputError for one that is ours, or above or below one, and not `free`."""
    fixed = [key for key in ours if key not in free]
    if taken := sorted(key for key in settings if any(stands_with(key, each) for each in fixed)):
        raise DecidedError(
            f"[trainer.options.settings] {', '.join(taken)}: rlplan sets that itself, by the recipe, the allocation "
            "and the machine: leave it out",
            taken,
        )
    return {**ours, **settings}


def has_chat(task: Task) -> bool:
    """Whether the model has a chat template, so that a prompt that is a text becomes a turn of the user."""
    return isinstance(task.tokenizer, ChatTokenizer) and task.tokenizer.has_template


def started(
    config: TrialConfig,
    attempt: Attempt,
    rank: int,
    argv: Sequence[str],
    files: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    own_ray: bool,
) -> Launch:
    """Return what to start on a host: the command, or a node of a Ray of the trial's own with it on the head.

    The first word of `argv` is an argument of the trainer's interpreter.
    """
    python = config.driven_by.python or "python3"
    trial, sweep = run_names(attempt)
    usual = {"HF_HUB_OFFLINE": str(int(not is_hub_name(config.task.model))), "TOKENIZERS_PARALLELISM": "false"}
    usual |= {"WANDB_NAME": trial, "WANDB_RUN_GROUP": sweep, "MLFLOW_EXPERIMENT_NAME": sweep}
    given = {name: os.environ.get(name, value) for name, value in usual.items()}
    given["OMP_NUM_THREADS"] = str(config.machine.threads)  # Ray sets it in every worker, whatever was asked for
    given |= config.driven_by.environment | dict(environment)
    if rank < len(attempt.gpus) and attempt.gpus[rank]:
        given["CUDA_VISIBLE_DEVICES"] = attempt.gpus[rank]
    launch = Launch((python, *argv), dict(files), given)
    if not own_ray:
        return launch
    gpus = config.machine.gpus // config.machine.nodes if config.machine.device == "cuda" else 0
    return in_own_ray(launch, attempt, rank, python, gpus, config.driven_by.patience)


def run_names(attempt: Attempt) -> tuple[str, str]:
    """Return what a trial's run and its group are called in W&B and the like: the trial, and its sweep."""
    trial = attempt.folder.absolute().parent
    return trial.name, trial.parent.name


def in_own_ray(launch: Launch, attempt: Attempt, rank: int, python: str, gpus: int, patience: Patience) -> Launch:
    """Return what to start on the host of a rank: a node of the trial's own Ray, and on the head the command in it.

    So a trainer that brings a Ray of its own, in any version, gets one that spans its trial's hosts and nothing else.
    The command runs once, on the head, and finds that Ray by RAY_ADDRESS. `python` is the trainer's interpreter, `gpus`
    what each host has.
    """
    given = {
        "address": attempt.hosts[rank],
        "nodes": len(attempt.hosts),
        "gpus": gpus,
        "meeting": str(attempt.folder / f"attempt-{attempt.number}.ray.json"),
        "seconds": patience.start_up_seconds / 2,  # the other half is the trainer's own
    }
    script = _IN_OWN_RAY.name
    argv = (python, str(attempt.folder / script), json.dumps(given), *(launch.argv if rank == 0 else ()))
    return replace(launch, argv=argv, files={**launch.files, script: _IN_OWN_RAY.read_text(encoding="utf-8")})


def meeting_port(attempt: Attempt) -> int:
    """Return the port at which the machines of a trial meet, which each of them knows."""
    first, last = port_range() or _PORTS
    return first + zlib.crc32(f"{attempt.folder}/{attempt.number}".encode()) % (last + 1 - first)


def asked_itself(config: TrialConfig, files: Mapping[str, str], *argv: str, **environment: str) -> tuple[int, str]:
    """Have a trainer's own environment look at the files of a trial; return how it ended, and what it printed.

    The first word is an argument of the trainer's interpreter.
    """
    launcher = shlex.split(config.driven_by.launcher or "")
    with TemporaryDirectory(prefix="rlplan-rehearsal-") as place:
        for name, text in files.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        command = [*launcher, config.driven_by.python or "python3", *argv]
        try:
            own = config.driven_by.environment
            given = {**os.environ, **own, "PYTHONPATH": str(Path(place, "parts")), **environment}
            ended = subprocess.run(
                command, cwd=place, env=given, capture_output=True, text=True, timeout=_LONGEST, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, f"{shlex.join(command)}: {error}"
    return ended.returncode, masked(f"{ended.stdout}\n{ended.stderr}".strip(), config.driven_by.secrets)


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
    step that it goes on from into it, else what an earlier one got to would vouch for what it writes anew.
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


def stands_with(given: str, ours: str) -> bool:
    """Whether a key is one of ours, or stands above or below it."""
    given, ours = given.lstrip("+~-"), ours.lstrip("+~-")
    return given == ours or given.startswith(f"{ours}.") or ours.startswith(f"{given}.")


def _glob(text: str) -> str:
    return "[^/]*".join(re.escape(part) for part in text.split("*"))
