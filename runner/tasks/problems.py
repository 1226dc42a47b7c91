"""Problems out of a user's JSONL file, and which of them are held out for validation.

A line is an object of `prompt` (text, or a list of chat messages) and `answer` (text or a number). An `id` and any
further fields are optional; a reward function of the user's own sees them all.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from runner.ports.task import Messages, Problem, Prompt

SHAPE = (
    '{"prompt": "What is 2 + 2?", "answer": "4"}: prompt is text or a list of {"role", "content"}, answer is text or '
    "a number, an id and further fields are optional"
)
LARGEST_HELD_OUT_SHARE = 0.25
_OWN_FIELDS = ("id", "prompt", "answer")


def read_problems(path: str, *, answers_needed: bool = True) -> list[Problem]:
    """Read a file of problems; InputError names the line and what is wrong with it.

    Without `answers_needed`, a line may lack its answer, which is then empty: a function may judge by other fields.
    """
    problems: list[Problem] = []
    lines_of: dict[str, int] = {}
    for number, row in _rows(path):
        place = f"'{path}', line {number}"
        problem, named = _problem(row, place, answers_needed)
        if problem.id in lines_of:
            first = lines_of[problem.id]
            again = f"id '{problem.id}' is that of" if named else "the same prompt and answer as on"
            raise InputError(f"{place}: {again} line {first}: remove one of them, or give each an id of its own")
        lines_of[problem.id] = number
        problems.append(problem)
    if not problems:
        raise InputError(f"'{path}' holds no problems: each line should be like {SHAPE}")
    return problems


def hold_out(problems: Sequence[Problem], wanted: int, path: str) -> tuple[list[Problem], list[Problem]]:
    """Split problems into those to train on and `wanted` ones to validate on, but never more than a quarter of them.

    Those with the smallest hash of their id are held out: the same ones whatever the seed and the order of the file.
    Problems that share a prompt stay on one side.
    """
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(_key(problem.prompt), []).append(problem)
    if len(groups) < 2:
        raise InputError(
            f"'{path}' holds a single prompt, so none can be held out for validation: add more, or give validation_file"
        )
    limit = max(1, min(wanted, int(LARGEST_HELD_OUT_SHARE * len(problems))))
    held: set[str] = set()
    count = 0
    for key in sorted(groups, key=lambda key: min(map(_hash_of_id, groups[key]))):
        if count == 0 or count + len(groups[key]) <= limit:
            held.add(key)
            count += len(groups[key])
        if count >= limit:
            break
    train = [problem for problem in problems if _key(problem.prompt) not in held]
    return train, in_fixed_order(problem for problem in problems if _key(problem.prompt) in held)


def in_fixed_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems shuffled by the hash of their id, so that the first k of a sorted file are a fair sample."""
    return sorted(problems, key=_hash_of_id)


def refuse_overlap(train: Iterable[Problem], validation: Iterable[Problem], path: str, validation_path: str) -> None:
    """Raise InputError when a prompt to validate on is also trained on: the score would measure memory."""
    trained = {_key(problem.prompt): problem.id for problem in train}
    shared = [problem for problem in validation if _key(problem.prompt) in trained]
    if shared:
        first = shared[0]
        raise InputError(
            f"{len(shared)} prompts of validation_file '{validation_path}' are also in '{path}' (the first is "
            f"'{first.id}', there '{trained[_key(first.prompt)]}'): remove them from one of the files"
        )


def _rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    file = Path(path).expanduser()
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _row(line, f"'{path}', line {number}")
    except FileNotFoundError as error:
        raise InputError(f"'{path}' does not exist: give the path of a JSONL file of problems") from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' is not UTF-8 text: save it as UTF-8, one JSON object a line") from error
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}") from error


def _row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON ({error}): each line should be like {SHAPE}") from error
    if not isinstance(row, dict):
        raise InputError(f"{place} is no JSON object: each line should be like {SHAPE}")
    return row


def _problem(row: dict[str, Any], place: str, answers_needed: bool) -> tuple[Problem, bool]:
    """Return a line's problem, and whether the line gives its id."""
    needed = ("prompt", "answer") if answers_needed else ("prompt",)
    missing = [name for name in needed if name not in row]
    if missing:
        given = ", ".join(f"'{name}'" for name in row) or "no field"
        raise InputError(f"{place}: '{missing[0]}' is missing (it has {given}): each line should be like {SHAPE}")
    prompt = _prompt(row["prompt"], place)
    answer = _text(row.get("answer", ""), "answer", place)
    if answers_needed and not answer.strip():
        raise InputError(f"{place}: 'answer' is empty, and no response could be right: give the right answer")
    if "id" in row:
        id_ = _text(row["id"], "id", place)
        if not id_:
            raise InputError(f"{place}: 'id' is empty: give one, or leave it out")
    else:
        id_ = hashlib.sha256(json.dumps([_key(prompt), answer]).encode()).hexdigest()[:16]
    extra = {name: value for name, value in row.items() if name not in _OWN_FIELDS}
    return Problem(id_, prompt, answer, extra or None), "id" in row


def _prompt(value: object, place: str) -> Prompt:
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f"{place}: 'prompt' is empty: give the text that the model should answer")
        return value
    if not isinstance(value, list) or not value:
        raise InputError(f"{place}: 'prompt' is {_shown(value)}: it should be text, or a list of chat messages")
    messages: Messages = tuple(_message(message, number, place) for number, message in enumerate(value, start=1))
    if messages[-1]["role"] == "assistant":
        raise InputError(f"{place}: 'prompt' ends with a message of the assistant: its answer is what is sampled")
    return messages


def _message(value: object, number: int, place: str) -> dict[str, str]:
    if (
        not isinstance(value, dict)
        or set(value) != {"role", "content"}
        or not all(isinstance(part, str) for part in value.values())
    ):
        raise InputError(
            f"{place}: message {number} of 'prompt' is {_shown(value)}: it should be "
            '{"role": "user", "content": "…"}, both text and nothing else'
        )
    return {"role": value["role"], "content": value["content"]}


def _text(value: object, name: str, place: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    raise InputError(f"{place}: '{name}' is {_shown(value)}: it should be text or a number")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _key(prompt: Prompt) -> str:
    return prompt.strip() if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)


def _hash_of_id(problem: Problem) -> str:
    return hashlib.sha256(problem.id.encode("utf-8", "surrogatepass")).hexdigest()
