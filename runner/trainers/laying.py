"""What is laid into a trial's folder for a trainer on our problems: our reward, the problems, our programs."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from planner.config.task import TaskSection
from runner.ports.task import Prompt, Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.tasks.rewards import EXACT, HTTP, MATH, reference
from runner.tasks.tokenizers import character_tokenizer_files

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
    "runner/tasks/latex_choices.py",
    "runner/tasks/math_answers.py",
    "runner/tasks/reward_child.py",
    "runner/tasks/reward_judge.py",
    "runner/tasks/reward_process.py",
    "runner/tasks/rewards.py",
    "runner/trainers/__init__.py",
    "runner/trainers/rewarding.py",
)


def judged_files(config: TrialConfig, task: Task, sharers: int = 1) -> dict[str, str]:
    """Return our reward as `rewarding.py` uses it in the trainer's own interpreter, the problems, and a tokenizer.

    Their order in the file is: those to train on, then those to validate on. `sharers` is how many processes of a
    machine score responses at the same time.
    """
    choice, embedded = config.task, config.task.name in EMBEDDED
    tokenizer = character_tokenizer_files() if embedded else {}
    tokenizer |= {} if task.chat_template is None else {"chat_template.jinja": task.chat_template}
    known = embedded or choice.reward in (EXACT, MATH) or choice.reward.startswith(HTTP)
    reward = {
        **choice.model_dump(include=set(TaskSection.model_fields)),
        "embedded": embedded,
        "reward": choice.reward if known else reference(choice.reward),
    }
    given: dict[str, Any] = {
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
        "reward.json": json.dumps(given, indent=1),
    }


def numbered_rows(
    config: TrialConfig, task: Task, prompt: str, label: str, written: Callable[[Prompt], Any] = lambda given: given
) -> tuple[str, str]:
    """Return data files to train and to validate on, of each problem's prompt and place in ours, by these names.

    `written` is a prompt as the trainer takes it.
    """
    chosen = (*task.train, *task.validation[: config.validation.problems])
    rows = [json.dumps({prompt: written(each.prompt), label: str(number)}) + "\n" for number, each in enumerate(chosen)]
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


def nested(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys as nested tables."""
    tables: dict[str, Any] = {}
    for key, value in keys.items():
        *above, name = key.split(".")
        table = tables
        for part in above:
            table = table.setdefault(part, {})
        table[name] = value
    return tables
