"""From a choice of task to the task: an embedded one by its name, or a user's own by the path of its problems."""

from collections.abc import Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any

from budgets.errors import InputError, UnknownNameError
from runner.policy.model import require_checkpoint
from runner.ports.task import Closing, Problem, Task
from runner.ports.trial import TaskChoice
from runner.tasks.embedded import EMBEDDED, embedded_task
from runner.tasks.hub import is_hub_name, model_files
from runner.tasks.problems import hold_out, in_fixed_order, read_problems, refuse_overlap
from runner.tasks.rewards import EXACT, MATH, make_reward
from runner.tasks.tokenizers import ChatTokenizer, load_tokenizer

VALIDATION_PROBLEMS = 128
_USES = ("to train on", "to validate on")


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
        raise InputError(
            f"task '{choice.name}' needs task.model: the folder of a Hugging Face checkpoint, or its name on the hub"
        )
    if choice.max_response_tokens is None:
        raise InputError(f"task '{choice.name}' needs task.max_response_tokens: the length at which responses are cut")
    train, validation = user_problems(choice, validation_problems)
    named = is_hub_name(choice.model)
    files = model_files(choice.model)
    config = require_checkpoint(str(files), weights=not named)
    tokenizer = load_tokenizer(str(files))
    kept, longest = _within([train, validation], tokenizer, choice)
    _require_room(config, longest, choice.max_response_tokens, choice.model)
    return Task(
        name=choice.name,
        train=kept[0],
        validation=kept[1],
        tokenizer=tokenizer,
        reward=make_reward(choice, seed),
        model_path=choice.model if named else str(files),
        max_prompt_tokens=longest,
        max_response_tokens=choice.max_response_tokens,
        closing=Closing(alone=choice.reward in (EXACT, MATH)),
        left_out=_told([train, validation], kept, choice.prompt_length),
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


def _within(
    sets: Sequence[Sequence[Problem]], tokenizer: ChatTokenizer, choice: TaskChoice
) -> tuple[list[list[Problem]], int]:
    """Return the problems of each set whose prompts are not too long, and the tokens of the longest of them."""
    kept: list[list[Problem]] = []
    longest = 0
    for problems in sets:
        lengths = [_tokens(problem, tokenizer, choice.name) for problem in problems]
        most = max(lengths) if choice.prompt_length is None else choice.prompt_length
        within = [length for length in lengths if length <= most]
        if not within:
            raise InputError(
                f"all {len(lengths)} prompts of task '{choice.name}' are longer than [task] prompt_length = {most}: "
                f"the shortest has {min(lengths)} tokens"
            )
        kept.append([problem for problem, length in zip(problems, lengths, strict=True) if length <= most])
        longest = max(longest, *within)
    return kept, longest


def _tokens(problem: Problem, tokenizer: ChatTokenizer, task: str) -> int:
    try:
        return len(tokenizer.encode_prompt(problem.prompt))
    except InputError as error:
        raise InputError(f"problem '{problem.id}' of task '{task}': {error}") from error


def _told(sets: Sequence[Sized], kept: Sequence[Sized], length: int | None) -> tuple[str, ...]:
    """Say how many problems of each set are too long."""
    counts = [(len(whole), len(whole) - len(rest)) for whole, rest in zip(sets, kept, strict=True)]
    if not any(beyond for _, beyond in counts):
        return ()
    parts = [f"{beyond:,} of {whole:,} prompts {use}" for (whole, beyond), use in zip(counts, _USES, strict=True)]
    return (f"left out, longer than [task] prompt_length = {length:,}: {' and '.join(parts)}",)


def _require_room(config: dict[str, Any], prompt: int, response: int, model: str) -> None:
    """Refuse responses that the model's context cannot hold."""
    context = config.get("max_position_embeddings")
    if isinstance(context, int) and prompt + response > context:
        raise InputError(
            f"the longest prompt ({prompt} tokens) and task.max_response_tokens = {response} are {prompt + response} "
            f"tokens, but model '{model}' holds {context}: lower max_response_tokens to {max(1, context - prompt)}"
        )
