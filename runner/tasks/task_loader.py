"""From a choice of task to the task: an embedded one by its name, or a user's own by where its problems are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from budgets.errors import InputError, UnknownNameError
from planner.config.task import ProblemSource
from runner.policy.model import require_checkpoint
from runner.ports.task import Closing, Problem, Task
from runner.ports.trial import TaskChoice
from runner.tasks.embedded import EMBEDDED, embedded_task
from runner.tasks.problems import apart, hold_out, in_fixed_order, mixed, read_problems
from runner.tasks.rewards import EXACT, MATH, ExactReward, make_reward
from runner.tasks.tokenizers import ChatTokenizer, is_hub_name, load_tokenizer, model_files

VALIDATION_PROBLEMS = 128
SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
Tokens = Callable[[Problem], int]
Stamps = tuple[tuple[str, int], ...]
Reason = tuple[int, str]  # why so many problems are not asked


@dataclass(frozen=True, slots=True)
class Asked:
    """Problems as they are asked."""

    train: list[Problem]
    validation: list[Problem]
    longest: int  # tokens of a prompt; 0 where nobody counts them
    left_out: tuple[str, ...]  # a sentence for each reason why some are not asked


def open_task(choice: TaskChoice, seed: int, validation_problems: int = VALIDATION_PROBLEMS) -> Task:
    """Return the task that was chosen, ready to be trained on.

    Its problems, and which of them are held out, do not depend on the seed, which is that of Python's `random` in the
    process of a reward. At most `validation_problems` are held out of a user's file without a validation file.
    """
    if choice.name in EMBEDDED:
        return _embedded(choice)
    is_users = Path(choice.name).expanduser().exists() or choice.name.endswith(SUFFIXES) or is_hub_name(choice.name)
    if choice.data or is_users:
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
    """Build the task of a user's problems; InputError says what of them cannot be used."""
    if choice.model is None:
        raise InputError(
            f"task '{choice.name}' needs task.model: the folder of a Hugging Face checkpoint, or its name on the hub"
        )
    if choice.max_response_tokens is None:
        raise InputError(f"task '{choice.name}' needs task.max_response_tokens: the length at which responses are cut")
    files, config = _model_of(choice.model)
    # When what the choice reads was written to last, as far as it is here.
    sources = [source.path for source in (*_sources(choice), *_validating(choice))]
    paths = [*map(Path, filter(None, (*sources, choice.chat_template))), *files.glob("*.json")]
    stamps = tuple((str(path), path.stat().st_mtime_ns) for path in paths if path.exists())
    asked, tokenizer = _asked(choice.model_dump_json(), validation_problems, str(files), stamps)
    task = _task_of(choice, files, config, asked, tokenizer)
    closing = Closing(alone=choice.reward in (EXACT, MATH))
    return replace(task, reward=make_reward(choice, seed), closing=closing)


def without_problems(choice: TaskChoice) -> Task:
    """Return the task of an environment of the trainer's, which has problems and rewards of its own."""
    if choice.model is None or choice.prompt_length is None or choice.max_response_tokens is None:
        raise InputError(
            f"an environment of {choice.name} has its own problems, of which rlplan sees none: give --model, and "
            "[task] prompt_length for all tokens of a rollout that are not responses, without --task"
        )
    files, config = _model_of(choice.model)
    tokenizer = load_tokenizer(str(files), _template(choice))
    return _task_of(choice, files, config, Asked([], [], choice.prompt_length, ()), tokenizer)


def _model_of(model: str) -> tuple[Path, dict[str, Any]]:
    """Return where a model's configuration and tokenizer are, and the former; its trainer loads what is on the hub."""
    files = model_files(model)
    return files, require_checkpoint(str(files), weights=not is_hub_name(model))


def _task_of(choice: TaskChoice, files: Path, config: dict[str, Any], asked: Asked, tokenizer: ChatTokenizer) -> Task:
    """Return the task of a model and problems; InputError where its context cannot hold them."""
    model, most = choice.model, choice.max_response_tokens
    assert model is not None
    assert most is not None
    context, tokens = config.get("max_position_embeddings"), asked.longest + most
    if isinstance(context, int) and tokens > context:
        raise InputError(
            f"the longest prompt ({asked.longest} tokens) and task.max_response_tokens = {most} are {tokens} tokens, "
            f"but model '{model}' holds {context}: lower max_response_tokens to {max(1, context - asked.longest)}"
        )
    return Task(
        name=choice.name,
        train=asked.train,
        validation=asked.validation,
        tokenizer=tokenizer,
        reward=ExactReward(),
        model_path=model if is_hub_name(model) else str(files),
        max_prompt_tokens=asked.longest,
        max_response_tokens=most,
        chat_template=_template(choice),
        left_out=asked.left_out,
    )


def user_problems(choice: TaskChoice, validation_problems: int, tokens: Tokens | None = None) -> Asked:
    """Return the problems to train on and those to validate on, which share no prompt; `tokens` counts a prompt's."""
    sources, validating = _sources(choice), _validating(choice)
    needs: dict[str, Any] = {"answers_needed": choice.reward in (EXACT, MATH), "system": choice.system_prompt}
    parts, repeated = read_problems(sources, **needs)
    held_out, _ = read_problems(validating, **needs)
    reasons = [(repeated, "rows that repeat another")]
    longest = 0
    if tokens is not None:
        counted = [[(problem, tokens(problem)) for problem in part] for part in (*parts, *held_out)]
        lengths = [length for part in counted for _, length in part]
        most = choice.prompt_length or max(lengths)
        longest = max((length for length in lengths if length <= most), default=0)
        within = [[problem for problem, length in part if length <= most] for part in counted]
        beyond = sum(map(len, [*parts, *held_out])) - sum(map(len, within))
        reasons.append((beyond, f"prompts of more than [task] prompt_length = {choice.prompt_length} tokens"))
        parts, held_out = within[: len(parts)], within[len(parts) :]
        _require_some(within, reasons, choice.name)
    if held_out:
        validation = in_fixed_order(problem for part in held_out for problem in part)
        train = [apart(part, validation) for part in parts]
        reasons.append((sum(map(len, parts)) - sum(map(len, train)), "prompts to train on that are validated on"))
    else:
        whole, validation = hold_out([problem for part in parts for problem in part], validation_problems, choice.name)
        ids = {problem.id for problem in whole}
        train = [[problem for problem in part if problem.id in ids] for part in parts]
    _require_some(train, reasons, choice.name)
    return Asked(mixed(train, [source.weight for source in sources]), validation, longest, _left_out(reasons))


def _left_out(reasons: Sequence[Reason]) -> tuple[str, ...]:
    return tuple(f"left out, {reason}: {count:,}" for count, reason in reasons if count)


def _require_some(parts: Sequence[Sequence[Problem]], reasons: Sequence[Reason], task: str) -> None:
    """Refuse a source of which nothing is left."""
    if not all(parts):
        raise InputError(f"task '{task}' has a source of which nothing is asked; {'; '.join(_left_out(reasons))}")


def _sources(choice: TaskChoice) -> list[ProblemSource]:
    return choice.data or [ProblemSource(path=choice.name)]


def _validating(choice: TaskChoice) -> list[ProblemSource]:
    """Return where the problems to validate on are; a file that a flag gives has the columns of the first data."""
    if choice.validation_file is None:
        return choice.validation
    alike = {"path": choice.validation_file, "subset": None, "split": "train", "weight": None}
    return [_sources(choice)[0].model_copy(update=alike)]


@lru_cache(maxsize=2)  # every candidate of a plan asks the same
def _asked(choice_json: str, validation_problems: int, files: str, _written_at: Stamps) -> tuple[Asked, ChatTokenizer]:
    """Return a choice's problems, and the tokenizer that counts them, as its files were at these times."""
    choice = TaskChoice.model_validate_json(choice_json)
    tokenizer = load_tokenizer(files, _template(choice))

    def tokens(problem: Problem) -> int:
        try:
            return len(tokenizer.encode_prompt(problem.prompt))
        except InputError as error:
            raise InputError(f"problem '{problem.id}' of task '{choice.name}': {error}") from error

    return user_problems(choice, validation_problems, tokens), tokenizer


def _template(choice: TaskChoice) -> str | None:
    """Return the chat template that stands for the model's own."""
    if choice.chat_template is None:
        return None
    try:
        return Path(choice.chat_template).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"[task] chat_template = '{choice.chat_template}' cannot be read: {error}") from error
