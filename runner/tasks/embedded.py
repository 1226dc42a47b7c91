"""The embedded tasks: sums with a tiny model each, small enough to be trained on one CPU core within minutes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from budgets.errors import UnknownNameError
from planner.config.layers import task_file
from planner.config.request import read_pass_rates
from runner.ports.task import Problem, Task
from runner.tasks.characters import CharacterTokenizer
from runner.tasks.exact import ExactReward
from runner.tasks.sums import Sums, sum_problems

MODELS = "models"


@dataclass(frozen=True, slots=True)
class Learning:
    """What training reaches on the task: the validation score after so many rollouts, whatever the seed.

    With n = 16, B = 16, the advantage of GRPO, AdamW at `learning_rate` and no KL term.
    """

    score: float
    rollouts: int
    learning_rate: float


@dataclass(frozen=True, slots=True)
class Embedded:
    """What there is to know of an embedded task before its files are read."""

    sums: Sums
    max_response_tokens: int  # more than the longest right answer with its end token
    learning: Learning


EMBEDDED: Mapping[str, Embedded] = {
    "sum-easy": Embedded(Sums(2, 2, 100, 999, steps_written=False), 6, Learning(0.9, 40_000, 3e-4)),
    "sum-hard": Embedded(Sums(2, 2, 1000, 9999, steps_written=False), 7, Learning(0.8, 40_000, 3e-4)),
    "sum-steps": Embedded(Sums(2, 4, 100, 249, steps_written=True), 32, Learning(0.8, 40_000, 3e-4)),
}


def embedded_names() -> list[str]:
    """List the embedded tasks."""
    return sorted(EMBEDDED)


def embedded_task(name: str) -> Task:
    """Return an embedded task with its problems, its model's folder and the model's pass rates."""
    if name not in EMBEDDED:
        raise UnknownNameError("embedded task", name, EMBEDDED)
    embedded = EMBEDDED[name]
    train, validation = _problems(name)
    tokenizer = CharacterTokenizer()
    return Task(
        name=name,
        train=train,
        validation=validation,
        tokenizer=tokenizer,
        reward=ExactReward(strip=False),
        model_path=str(files("runner.tasks").joinpath(MODELS, name)),
        max_prompt_tokens=max(len(tokenizer.encode_prompt(problem.prompt)) for problem in (*train, *validation)),
        max_response_tokens=embedded.max_response_tokens,
        base_pass_rates=read_pass_rates(task_file(f"{name}.pass-rates.txt")),
    )


@cache
def _problems(name: str) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    train, validation = sum_problems(name, EMBEDDED[name].sums)
    return tuple(train), tuple(validation)
