"""What is laid into a trial's folder for a trainer that trains on our problems: our reward, and the problems."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.tasks.rewards import EXACT, MATH, reference

REWARD_PARTS = (  # of rlplan, which mean the same wherever they run; each imports none but these
    "budgets/__init__.py",
    "budgets/errors.py",
    "planner/__init__.py",
    "planner/metrics.py",
    "runner/__init__.py",
    "runner/ports/__init__.py",
    "runner/ports/task.py",
    "runner/tasks/__init__.py",
    "runner/tasks/math_answers.py",
    "runner/tasks/reward_child.py",
    "runner/tasks/reward_process.py",
    "runner/tasks/rewards.py",
)


def parts(paths: Iterable[str] = REWARD_PARTS) -> dict[str, str]:
    """Return modules of rlplan as files below `parts`, which the trainer's own interpreter imports from there."""
    return {f"parts/{path}": _source(path) for path in paths}


def problem_lines(config: TrialConfig, task: Task) -> str:
    """Return the problems to train on and then those to validate on, one a line."""
    chosen = [*task.train, *task.validation[: config.validation.problems]]
    return "".join(json.dumps(asdict(problem)) + "\n" for problem in chosen)


def reward_of(config: TrialConfig) -> dict[str, Any]:
    """Return what the copied modules make the reward of."""
    choice = config.task
    given = choice.reward if choice.name in EMBEDDED or choice.reward in (EXACT, MATH) else reference(choice.reward)
    return {
        "embedded": choice.name in EMBEDDED,
        "reward": given,
        "reward_seconds": choice.reward_seconds,
        "failed_reward": choice.failed_reward,
    }


def _source(path: str) -> str:
    package, _, rest = path.partition("/")
    return files(package).joinpath(rest).read_text(encoding="utf-8")
