"""The embedded tasks: sums with a tiny model each, small enough to be trained on one CPU core within minutes."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate, count
from pathlib import Path

from budgets.errors import UnknownNameError
from planner.config.layers import task_file
from planner.config.pass_rates import read_pass_rates
from planner.recipes.schema import EMBEDDED_PHRASES
from runner.ports.task import Closing, Problem, Task
from runner.tasks.rewards import ExactReward
from runner.tasks.tokenizers import CharacterTokenizer

TRAIN_PROBLEMS = 4096
VALIDATION_PROBLEMS = 512

Draw = Callable[[int, int], int]  # (lowest, highest) → a number between them
MODELS = "models"


@dataclass(frozen=True, slots=True)
class Sums:
    """How the sums of an embedded task are drawn and how their answers are written."""

    fewest_terms: int
    most_terms: int
    smallest: int
    largest: int
    max_response_tokens: int  # more than the longest right answer with its end token
    steps_written: bool = False  # answer with each addition and its running total, or with the last total alone

    def terms(self, draw: Draw) -> list[int]:
        """Draw the numbers to be added."""
        return [draw(self.smallest, self.largest) for _ in range(draw(self.fewest_terms, self.most_terms))]

    def prompt(self, terms: list[int]) -> str:
        """Write the question, such as 12+34=."""
        return "+".join(map(str, terms)) + "="

    def answer(self, terms: list[int]) -> str:
        """Write the one right answer."""
        return self.written(terms, list(accumulate(terms))[1:])

    def written(self, terms: list[int], totals: list[int]) -> str:
        """Write these totals, right or wrong, such as 120+130=250+140=390 for the steps of 120+130+140=."""
        if not self.steps_written:
            return str(totals[-1])
        steps = [f"+{term}={total}" for term, total in zip(terms[1:], totals, strict=True)]
        return "".join([str(terms[0]), *steps])


def sum_problems(task: str, sums: Sums) -> tuple[list[Problem], list[Problem]]:
    """Return the train and the validation problems; no two of them add the same numbers, in whatever order."""
    stream = _distinct(task, sums)
    validation = [_problem(f"{task}/validation/{i}", sums, next(stream)) for i in range(VALIDATION_PROBLEMS)]
    train = [_problem(f"{task}/train/{i}", sums, next(stream)) for i in range(TRAIN_PROBLEMS)]
    return train, validation


def last_total(answer: str) -> str:
    """Return what is left to say of an answer after its closing phrase: the sum, without the steps to it."""
    return answer.rpartition("=")[2]


def drawing(key: str) -> Draw:
    """Return a source of numbers that gives the same ones for the same key, for ever."""
    counter = count()

    def draw(lowest: int, highest: int) -> int:
        digest = hashlib.sha256(f"{key}/{next(counter)}".encode()).digest()
        return lowest + int.from_bytes(digest[:8], "big") % (highest - lowest + 1)

    return draw


def _distinct(task: str, sums: Sums) -> Iterator[list[int]]:
    draw = drawing(task)
    drawn: set[tuple[int, ...]] = set()
    while True:
        terms = sums.terms(draw)
        key = tuple(sorted(terms))
        if key not in drawn:
            drawn.add(key)
            yield terms


def _problem(id_: str, sums: Sums, terms: list[int]) -> Problem:
    return Problem(id_, sums.prompt(terms), sums.answer(terms))


EMBEDDED: Mapping[str, Sums] = {
    "sum-easy": Sums(2, 2, 100, 999, 6),
    "sum-hard": Sums(2, 2, 1000, 9999, 7),
    "sum-steps": Sums(2, 4, 100, 249, 32, steps_written=True),
}


def embedded_task(name: str) -> Task:
    """Return an embedded task with its problems, its model's folder and the model's pass rates."""
    if name not in EMBEDDED:
        raise UnknownNameError("embedded task", name, EMBEDDED)
    train, validation = _problems(name)
    tokenizer = CharacterTokenizer()
    return Task(
        name=name,
        train=train,
        validation=validation,
        tokenizer=tokenizer,
        reward=ExactReward(strip=False),
        model_path=str(model_folder(name)),
        max_prompt_tokens=max(len(tokenizer.encode_prompt(problem.prompt)) for problem in (*train, *validation)),
        max_response_tokens=EMBEDDED[name].max_response_tokens,
        base_pass_rates=read_pass_rates(task_file(f"{name}.pass-rates.txt")).rates,
        closing=Closing(answer=last_total) if EMBEDDED_PHRASES[name] else None,
    )


def model_folder(name: str) -> Path:
    """Return where the model of an embedded task lies."""
    return Path(str(files("runner.tasks").joinpath(MODELS, name)))


@cache
def _problems(name: str) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    train, validation = sum_problems(name, EMBEDDED[name])
    return tuple(train), tuple(validation)
