"""Problems out of a user's rows (JSON lines, CSV, Parquet, or what the package datasets loads), and which are held out.

A row is an object of `prompt` (text, or a list of chat messages) and `answer` (text or a number). An `id` and any
further fields are optional; a reward function of the user's own sees them all.
"""

import csv
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from planner.config.task import ProblemSource
from runner.ports.task import Messages, Problem, Prompt, turns_of
from runner.tasks.tokenizers import is_hub_name

LARGEST_HELD_OUT_SHARE = 0.25
_OWN_FIELDS = ("id", "prompt", "answer")
OF_VERL = "reward_model.ground_truth"  # where the data sets that verl prepares have the answer
SHAPE = (
    '{"prompt": "What is 2 + 2?", "answer": "4"}: prompt is text or a list of {"role", "content"}, answer is text or '
    "a number, an id and further fields are optional"
)
_SAVED = ("dataset_dict.json", "state.json")  # in a folder of datasets' save_to_disk
Row = tuple[str, dict[str, Any]]  # where it stands, in words, and its fields


def read_problems(
    sources: Sequence[ProblemSource], *, answers_needed: bool = True, system: str | None = None
) -> tuple[list[list[Problem]], int]:
    """Return the problems of each source, and how many rows repeat another's prompt and answer.

    InputError names the row and what is wrong with it. Without `answers_needed`, a row may lack its answer, which is
    then empty: a function may judge by other fields. `system` stands before prompts that have no such message.
    """
    places: dict[str, str] = {}
    sets: list[list[Problem]] = []
    repeated = 0
    for source in sources:
        problems: list[Problem] = []
        for place, row in rows_of(source):
            problem, has_id = _problem(row, place, source, answers_needed)
            if problem.id in places and has_id and not places[problem.id].startswith(f"'{source.path}'"):
                problem = replace(problem, id=f"{Path(source.path).stem}/{problem.id}")  # each numbers its own
            if (first := places.get(problem.id)) is not None and has_id:
                raise InputError(f"{place}: id '{problem.id}' is that of {first}: give each an id of its own")
            repeated += first is not None
            if first is None:
                places[problem.id] = place
                messages = turns_of(problem.prompt)
                if system is not None and messages[0]["role"] != "system":
                    problem = replace(problem, prompt=({"role": "system", "content": system}, *messages))
                problems.append(problem)
        if not problems:
            raise InputError(f"'{source.path}' holds no problems: each row should be like {SHAPE}")
        sets.append(problems)
    return sets, repeated


def mixed(sets: Sequence[Sequence[Problem]], weights: Sequence[float | None]) -> list[Problem]:
    """Return the problems of all sets, so that each has its weight's share of them.

    No problem is left out: those of a set that is too small for its share are repeated, in the order of their hashes.
    """
    weighted = [weight for weight in weights if weight is not None]
    if len(weighted) != len(weights):
        if weighted:
            raise InputError("[[task.data]] weight: give it to every source, or to none")
        return [problem for problems in sets for problem in problems]
    shares = [weight / sum(weighted) for weight in weighted]
    whole = max(len(problems) / share for problems, share in zip(sets, shares, strict=True))
    counts = [max(len(problems), round(whole * share)) for problems, share in zip(sets, shares, strict=True)]
    return [
        problem
        for problems, count in zip(sets, counts, strict=True)
        for problem in islice(cycle(in_fixed_order(problems)), count)
    ]


def hold_out(problems: Sequence[Problem], validation_count: int, path: str) -> tuple[list[Problem], list[Problem]]:
    """Split problems into those to train on and `wanted` ones to validate on, but never more than a quarter of them.

    Those with the smallest hash of their id are held out: the same ones whatever the seed and the order of the file.
    Problems that share a prompt stay on one side.
    """
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(_key(problem.prompt), []).append(problem)
    if len(groups) < 2:
        raise InputError(
            f"'{path}' holds a single prompt, so none can be held out for validation: add more, or give --validation"
        )
    limit = max(1, min(validation_count, int(LARGEST_HELD_OUT_SHARE * len(problems))))
    keys: set[str] = set()
    count = 0
    for key in sorted(groups, key=lambda key: min(map(_hash_of_id, groups[key]))):
        if count == 0 or count + len(groups[key]) <= limit:
            keys.add(key)
            count += len(groups[key])
        if count >= limit:
            break
    train = [problem for problem in problems if _key(problem.prompt) not in keys]
    return train, in_fixed_order(problem for problem in problems if _key(problem.prompt) in keys)


def in_fixed_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems shuffled by the hash of their id, so that the first k of a sorted file are a fair sample."""
    return sorted(problems, key=_hash_of_id)


def apart(train: Sequence[Problem], validation: Iterable[Problem]) -> list[Problem]:
    """Return the problems to train on without those whose prompt is validated on: the score would measure memory."""
    keys = {_key(problem.prompt) for problem in validation}
    return [problem for problem in train if _key(problem.prompt) not in keys]


def _problem(row: dict[str, Any], place: str, source: ProblemSource, answers_needed: bool) -> tuple[Problem, bool]:
    """Return a row's problem, and whether the row gives its id."""
    prompt = _prompt(_column(row, source.prompt, "prompt", place), place)
    answer, column = "", source.answer
    if column not in row and isinstance(truth := row.get("reward_model"), dict) and "ground_truth" in truth:
        column = OF_VERL if column == ProblemSource.model_fields["answer"].default else column
    if answers_needed or column.partition(".")[0] in row:
        answer = _text(_column(row, column, "answer", place), "answer", place)
    if source.answer_after is not None:
        answer = answer.rpartition(source.answer_after)[2].strip()
    if answers_needed and not answer.strip():
        raise InputError(f"{place}: 'answer' is empty, and no response could be right: give the right answer")
    if row.get("id") is not None:
        id_ = _text(row["id"], "id", place)
        if not id_:
            raise InputError(f"{place}: 'id' is empty: give one, or leave it out")
    else:
        id_ = hashlib.sha256(json.dumps([_key(prompt), answer]).encode()).hexdigest()[:16]
    used = (*_OWN_FIELDS, source.prompt, source.answer)
    extra = {name: value for name, value in row.items() if name not in used}
    return Problem(id_, prompt, answer, extra or None), row.get("id") is not None


def _column(row: dict[str, Any], name: str, wanted: str, place: str) -> Any:
    """Return a column, or by a dotted name the field of one."""
    value: Any = row
    for part in [name] if name in row else name.split("."):
        if not isinstance(value, dict) or part not in value:
            fields = ", ".join(f"'{field}'" for field in row) or "no field"
            raise InputError(
                f"{place}: '{name}' is missing (it has {fields}): name its column, as [[task.data]] {wanted} = \"…\", "
                f"or have rows like {SHAPE}"
            )
        value = value[part]
    return value


def _prompt(value: object, place: str) -> Prompt:
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f"{place}: 'prompt' is empty: give the text that the model should answer")
        return value
    if not isinstance(value, list) or not value:
        raise InputError(f"{place}: 'prompt' is {_shown(value)}: it should be text, or a list of chat messages")
    for number, message in enumerate(value, start=1):
        if (
            not isinstance(message, dict)
            or set(message) != {"role", "content"}
            or not all(isinstance(part, str) for part in message.values())
        ):
            raise InputError(
                f"{place}: message {number} of 'prompt' is {_shown(message)}: it should be "
                '{"role": "user", "content": "…"}, both text and nothing else'
            )
    messages: Messages = tuple({"role": message["role"], "content": message["content"]} for message in value)
    if messages[-1]["role"] == "assistant":
        raise InputError(f"{place}: 'prompt' ends with a message of the assistant: its answer is what is sampled")
    return messages


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


def rows_of(source: ProblemSource) -> Iterator[Row]:
    """Yield the rows of a source; InputError says what cannot be read, and where."""
    path = Path(source.path).expanduser()
    if path.is_dir() or is_hub_name(source.path):
        yield from _of_datasets(source, path)
        return
    reader = {".parquet": _of_parquet, ".csv": _of_csv}.get(path.suffix.lower(), _of_lines)
    try:
        yield from reader(path, source.path)
    except FileNotFoundError as error:
        raise InputError(
            f"'{source.path}' does not exist: give a file of problems (JSONL, CSV or Parquet), or a name such as "
            "openai/gsm8k"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{source.path}' is not UTF-8 text: save it as UTF-8") from error
    except csv.Error as error:
        raise InputError(f"'{source.path}' cannot be read as CSV: {error}") from error
    except OSError as error:
        raise InputError(f"'{source.path}' cannot be read: {error.strerror or error}") from error


def _of_lines(path: Path, name: str) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            place = f"'{name}', line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{place} is not JSON ({error}): each line should be like {SHAPE}") from error
            if not isinstance(row, dict):
                raise InputError(f"{place} is no JSON object: each line should be like {SHAPE}")
            yield place, row


def _of_csv(path: Path, name: str) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=1):
            yield f"'{name}', row {number}", {key: value for key, value in row.items() if key is not None}


def _of_parquet(path: Path, name: str) -> Iterator[Row]:
    parquet: Any = import_module("pyarrow.parquet")
    try:
        batches = parquet.ParquetFile(path).iter_batches()
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from ((f"'{name}', row {number}", row) for number, row in enumerate(rows, start=1))
    except ValueError as error:  # as of a file that is no Parquet
        raise InputError(f"'{name}' cannot be read as Parquet: {error}") from error


def _of_datasets(source: ProblemSource, path: Path) -> Iterator[Row]:
    """Yield the rows of a split that datasets loads: from its own folder, a folder of files, or the hub."""
    try:
        datasets: Any = import_module("datasets")
    except ImportError as error:
        raise InputError(
            f"'{source.path}' is read by the package datasets, which is not installed: pip install datasets, or give a "
            "JSONL, CSV or Parquet file"
        ) from error
    try:
        if any((path / name).is_file() for name in _SAVED):
            loaded = datasets.load_from_disk(str(path))
        else:
            loaded = datasets.load_dataset(source.path, source.subset, split=source.split)
        rows = loaded[source.split] if isinstance(loaded, Mapping) else loaded
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"'{source.path}' (subset {source.subset or 'none'}, split '{source.split}') cannot be loaded: {reason}"
        ) from error
    yield from ((f"'{source.path}', row {number}", dict(row)) for number, row in enumerate(rows, start=1))
