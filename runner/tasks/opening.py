"""From a choice of task to the task: an embedded one by its name, or a user's own by the path of its problems."""

from dataclasses import replace
from pathlib import Path

from budgets.errors import InputError, UnknownNameError
from runner.ports.task import Task
from runner.ports.trial import TaskChoice
from runner.tasks.rewards import EXACT, MATH
from runner.tasks.user import user_task

VALIDATION_PROBLEMS = 128


def open_task(choice: TaskChoice, seed: int, validation_problems: int = VALIDATION_PROBLEMS) -> Task:
    """Return the task that was chosen, ready to be trained on.

    Its problems, and which of them are held out, do not depend on the seed, which is that of Python's `random` in the
    process of a reward. At most `validation_problems` are held out of a user's file without a validation file.
    """
    from runner.tasks.embedded import embedded_names  # noqa: PLC0415

    known = list(embedded_names())
    if choice.name in known:
        return _embedded(choice)
    if choice.name.endswith((".jsonl", ".json")) or Path(choice.name).expanduser().exists():
        return user_task(choice, seed, validation_problems)
    raise UnknownNameError("task", choice.name, known, "For problems of your own, give the path of a JSONL file")


def _embedded(choice: TaskChoice) -> Task:
    """Return an embedded task, whose responses may be cut shorter than its own limit; the rest of it is fixed."""
    from runner.tasks.embedded import embedded_task  # noqa: PLC0415

    for name in ("model", "validation_file"):
        if getattr(choice, name) is not None:
            raise InputError(
                f"task.{name} = '{getattr(choice, name)}' with the embedded task '{choice.name}', which has its own: "
                "leave it out, or give the path of a JSONL file of problems as the task"
            )
    if choice.reward not in (EXACT, MATH):
        raise InputError(
            f"task.reward = '{choice.reward}': the embedded task '{choice.name}' is scored exactly; leave it out"
        )
    task = embedded_task(choice.name)
    if choice.max_response_tokens is None:
        return task
    if choice.max_response_tokens > task.max_response_tokens:
        raise InputError(
            f"task.max_response_tokens = {choice.max_response_tokens}: the embedded task '{choice.name}' has at most "
            f"{task.max_response_tokens}"
        )
    return replace(task, max_response_tokens=choice.max_response_tokens)
