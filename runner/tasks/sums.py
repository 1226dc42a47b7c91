"""The problems of the embedded tasks: sums, generated from nothing but a name and a counter.

Every number comes from SHA-256, so that no library's generator can ever change a problem.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count

from runner.ports.task import Problem

TRAIN_PROBLEMS = 4096
VALIDATION_PROBLEMS = 512

Draw = Callable[[int, int], int]  # (lowest, highest) → a number between them


@dataclass(frozen=True, slots=True)
class Sums:
    """How the sums of one task are drawn and how their answers are written."""

    fewest_terms: int
    most_terms: int
    smallest: int
    largest: int
    steps_written: bool  # answer with each addition and its running total, or with the last total alone

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


def drawing(key: str) -> Draw:
    """Return a source of numbers that gives the same ones for the same key, for ever."""
    counter = count()

    def draw(lowest: int, highest: int) -> int:
        digest = hashlib.sha256(f"{key}/{next(counter)}".encode()).digest()
        return lowest + int.from_bytes(digest[:8], "big") % (highest - lowest + 1)

    return draw


def _distinct(task: str, sums: Sums) -> Iterator[list[int]]:
    draw = drawing(task)
    seen: set[tuple[int, ...]] = set()
    while True:
        terms = sums.terms(draw)
        key = tuple(sorted(terms))
        if key not in seen:
            seen.add(key)
            yield terms


def _problem(id_: str, sums: Sums, terms: list[int]) -> Problem:
    return Problem(id_, sums.prompt(terms), sums.answer(terms))
