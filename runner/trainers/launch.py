"""The start of an attempt: the files in its folder, and the command, maybe in a Ray of the trial's own."""

import json
import os
import shlex
import subprocess
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from planner.config.task import TaskSection
from planner.config.trainer import Patience
from runner.ports.task import Prompt, Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.tasks.rewards import EXACT, HTTP, MATH, reference
from runner.tasks.task_loader import open_task, without_problems
from runner.tasks.tokenizers import character_tokenizer_files, is_hub_name
from runner.trainers.driver import Attempt, Launch
from runner.trainers.in_own_ray import port_range
from runner.trainers.job import run_names

_PORTS = 20_000, 29_999  # where the machines of a trial meet, unless the user names a range
_LONGEST = 600.0  # seconds, in which an environment on slow storage has been read
_IN_OWN_RAY = Path(__file__).with_name("in_own_ray.py")
_REWARD_PARTS = (  # of rlplan, which mean the same wherever they run; each imports none but these
    "budgets/__init__.py",
    "budgets/errors.py",
    "planner/__init__.py",
    "planner/metrics.py",
    "planner/percent.py",
    "runner/__init__.py",
    "runner/machine.py",
    "runner/ports/__init__.py",
    "runner/ports/task.py",
    "runner/tasks/__init__.py",
    "runner/tasks/math_answers.py",
    "runner/tasks/reward_child.py",
    "runner/tasks/reward_judge.py",
    "runner/tasks/reward_process.py",
    "runner/tasks/rewards.py",
    "runner/trainers/__init__.py",
    "runner/trainers/trial_reward.py",
)
_HIDDEN = "***"
_FEWEST_CHARACTERS = 4  # of a secret's value or line: a shorter one would hide words that say nothing of it


def opened_task(config: TrialConfig) -> Task:
    """Open the task; its reward runs in the trainer's own environment, which may have the problems too."""
    if not config.driven_by.takes_problems:
        return without_problems(config.task)
    task = open_task(config.task, config.seed, config.validation.problems)
    task.reward.close()
    return task


def reward_files(config: TrialConfig, task: Task, sharers: int = 1) -> dict[str, str]:
    """Return our reward as `trial_reward.py` uses it in the trainer's own interpreter, the problems, and a tokenizer.

    Their order in the file is: those to train on, then those to validate on. `sharers` is how many processes of a
    machine score responses at the same time.
    """
    choice, embedded = config.task, config.task.name in EMBEDDED
    tokenizer = character_tokenizer_files() if embedded else {}
    tokenizer |= {} if task.chat_template is None else {"chat_template.jinja": task.chat_template}
    is_ours = embedded or choice.reward in (EXACT, MATH) or choice.reward.startswith(HTTP)
    reward = {
        **choice.model_dump(include=set(TaskSection.model_fields)),
        "embedded": embedded,
        "reward": choice.reward if is_ours else reference(choice.reward),
    }
    settings: dict[str, Any] = {
        "reward": reward,
        "shaping": config.recipe.rewards.model_dump(),
        "longest": task.max_response_tokens,
        "seed": config.seed,
        "sharers": sharers,
        "train_problems": len(task.train),
        "paths": [os.getcwd()],  # for a reward that is a module of the user's
    }
    chosen = [*task.train, *task.validation[: config.validation.problems]]
    return {
        **parts(_REWARD_PARTS),
        **{f"tokenizer/{name}": text for name, text in tokenizer.items()},
        "problems.jsonl": "".join(json.dumps(asdict(problem), default=str) + "\n" for problem in chosen),
        "reward.json": json.dumps(settings, indent=1),
    }


def data_rows(
    config: TrialConfig, task: Task, prompt: str, label: str, written: Callable[[Prompt], Any] = lambda text: text
) -> tuple[str, str]:
    """Return data files to train and to validate on, of each problem's prompt and place in ours, by these names.

    `written` is a prompt as the trainer takes it.
    """
    chosen = (*task.train, *task.validation[: config.validation.problems])
    rows = [
        json.dumps({prompt: written(problem.prompt), label: str(number)}) + "\n"
        for number, problem in enumerate(chosen)
    ]
    return "".join(rows[: len(task.train)]), "".join(rows[len(task.train) :])


def parts(paths: Iterable[str]) -> dict[str, str]:
    """Return modules of rlplan as files below `parts`, which the trainer's own interpreter imports from there."""
    return {f"parts/{path}": _source(path) for path in paths}


def programs(package: str, *names: str) -> dict[str, str]:
    """Return programs of a driver, which run in its trainer's interpreter, as files."""
    return {name: _source(f"runner/trainers/{package}/{name}") for name in names}


def _source(path: str) -> str:
    package, _, rest = path.partition("/")
    return files(package).joinpath(rest).read_text(encoding="utf-8")


def trainer_launch(
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
    variables = {name: os.environ.get(name, value) for name, value in usual.items()}
    variables["OMP_NUM_THREADS"] = str(config.machine.threads)  # Ray sets it in every worker, whatever was asked for
    variables |= config.driven_by.environment | dict(environment)
    if rank < len(attempt.gpus) and attempt.gpus[rank]:
        variables["CUDA_VISIBLE_DEVICES"] = attempt.gpus[rank]
    launch = Launch((python, *argv), dict(files), variables)
    if not own_ray:
        return launch
    gpus = config.machine.gpus // config.machine.nodes if config.machine.device == "cuda" else 0
    return in_own_ray(launch, attempt, rank, python, gpus, config.driven_by.patience)


def in_own_ray(launch: Launch, attempt: Attempt, rank: int, python: str, gpus: int, patience: Patience) -> Launch:
    """Return what to start on the host of a rank: a node of the trial's own Ray, and on the head the command in it.

    So a trainer that brings a Ray of its own, in any version, gets one that spans its trial's hosts and nothing else.
    The command runs once, on the head, and finds that Ray by RAY_ADDRESS. `python` is the trainer's interpreter, `gpus`
    what each host has.
    """
    settings = {
        "address": attempt.hosts[rank],
        "nodes": len(attempt.hosts),
        "gpus": gpus,
        "meeting": str(attempt.folder / f"attempt-{attempt.number}.ray.json"),
        "seconds": patience.start_up_seconds / 2,  # the other half is the trainer's own
    }
    script = _IN_OWN_RAY.name
    argv = (python, str(attempt.folder / script), json.dumps(settings), *(launch.argv if rank == 0 else ()))
    return replace(launch, argv=argv, files={**launch.files, script: _IN_OWN_RAY.read_text(encoding="utf-8")})


def meeting_port(attempt: Attempt) -> int:
    """Return the port at which the machines of a trial meet, which each of them knows."""
    first, last = port_range() or _PORTS
    return first + zlib.crc32(f"{attempt.folder}/{attempt.number}".encode()) % (last + 1 - first)


def ask_parser(config: TrialConfig, files: Mapping[str, str], *argv: str, **environment: str) -> tuple[int, str]:
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
            chosen = config.driven_by.environment
            variables = {**os.environ, **chosen, "PYTHONPATH": str(Path(place, "parts")), **environment}
            ended = subprocess.run(
                command, cwd=place, env=variables, capture_output=True, text=True, timeout=_LONGEST, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, f"{shlex.join(command)}: {error}"
    return ended.returncode, masked(f"{ended.stdout}\n{ended.stderr}".strip(), config.driven_by.secrets)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return what a trainer has said without the values of its secrets, which are named by their variables."""
    values = {line.strip() for name in secrets for line in os.environ.get(name, "").splitlines()}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _FEWEST_CHARACTERS:
            text = text.replace(value, _HIDDEN)
    return text
