"""From a choice of task to the task: an embedded one by its name, or a user's own by the path of its problems."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from budgets.errors import InputError, UnknownNameError
from runner.policy.model import require_checkpoint
from runner.ports.task import Closing, Problem, Task
from runner.ports.trial import TaskChoice
from runner.tasks.embedded import EMBEDDED, embedded_task
from runner.tasks.problems import hold_out, in_fixed_order, read_problems, refuse_overlap
from runner.tasks.rewards import EXACT, MATH, make_reward
from runner.tasks.tokenizers import ChatTokenizer, load_tokenizer

VALIDATION_PROBLEMS = 128


def open_task(choice: TaskChoice, seed: int, validation_problems: int = VALIDATION_PROBLEMS) -> Task:
    """Return the task that was chosen, ready to be trained on.

    Its problems, and which of them are held out, do not depend on the seed, which is that of Python's `random` in the
    process of a reward. At most `validation_problems` are held out of a user's file without a validation file.
    """
    if choice.name in EMBEDDED:
        return _embedded(choice)
    if choice.name.endswith((".jsonl", ".json")) or Path(choice.name).expanduser().exists():
        return user_task(choice, seed, validation_problems)
    raise UnknownNameError(
        "task", choice.name, sorted(EMBEDDED), "For problems of your own, give the path of a JSONL file"
    )


def _embedded(choice: TaskChoice) -> Task:
    """Return an embedded task, whose responses may be cut shorter than its own limit; the rest of it is fixed."""
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


def user_task(choice: TaskChoice, seed: int, validation_problems: int) -> Task:
    """Build the task of a JSONL file; InputError says what of it cannot be used."""
    if choice.model is None:
        raise InputError(f"task '{choice.name}' needs task.model: the folder of a local Hugging Face checkpoint")
    if choice.max_response_tokens is None:
        raise InputError(f"task '{choice.name}' needs task.max_response_tokens: the length at which responses are cut")
    train, validation = user_problems(choice, validation_problems)
    config = require_checkpoint(choice.model)
    tokenizer = load_tokenizer(choice.model)
    longest = _longest_prompt([*train, *validation], tokenizer, choice)
    _require_room(config, longest, choice.max_response_tokens, choice.model)
    return Task(
        name=choice.name,
        train=train,
        validation=validation,
        tokenizer=tokenizer,
        reward=make_reward(choice, seed),
        model_path=str(Path(choice.model).expanduser()),
        max_prompt_tokens=longest,
        max_response_tokens=choice.max_response_tokens,
        closing=Closing(alone=choice.reward in (EXACT, MATH)),
    )


def user_problems(choice: TaskChoice, validation_problems: int) -> tuple[list[Problem], list[Problem]]:
    """Return the problems to train on and those to validate on, which share no prompt."""
    answers_needed = choice.reward in (EXACT, MATH)
    problems = read_problems(choice.name, answers_needed=answers_needed)
    if choice.validation_file is None:
        return hold_out(problems, validation_problems, choice.name)
    validation = read_problems(choice.validation_file, answers_needed=answers_needed)
    refuse_overlap(problems, validation, choice.name, choice.validation_file)
    return problems, in_fixed_order(validation)


def _longest_prompt(problems: Sequence[Problem], tokenizer: ChatTokenizer, choice: TaskChoice) -> int:
    """Return the length of the longest prompt in tokens, and refuse those beyond the limit.

    Leaving them out silently would change the task.
    """
    lengths: list[int] = []
    for problem in problems:
        try:
            lengths.append(len(tokenizer.encode_prompt(problem.prompt)))
        except InputError as error:
            raise InputError(f"problem '{problem.id}' of task '{choice.name}': {error}") from error
    longest = max(lengths)
    beyond = sum(length > choice.max_prompt_tokens for length in lengths)
    if beyond:
        worst = problems[lengths.index(longest)].id
        raise InputError(
            f"{beyond} of {len(lengths)} prompts of task '{choice.name}' are longer than task.max_prompt_tokens = "
            f"{choice.max_prompt_tokens} (the longest is problem '{worst}' with {longest}): raise the limit to "
            f"{longest}, or take them out of the file"
        )
    return longest


def _require_room(config: dict[str, Any], prompt: int, response: int, model: str) -> None:
    """Refuse responses that the model's context cannot hold."""
    context = config.get("max_position_embeddings")
    if isinstance(context, int) and prompt + response > context:
        raise InputError(
            f"the longest prompt ({prompt} tokens) and task.max_response_tokens = {response} are {prompt + response} "
            f"tokens, but model '{model}' holds {context}: lower max_response_tokens to {max(1, context - prompt)}"
        )
