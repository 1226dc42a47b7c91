import hashlib
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tasks.embedded import EMBEDDED, TRAIN_PROBLEMS, VALIDATION_PROBLEMS, Sums, drawing, sum_problems

PINNED = {
    "sum-easy": "5f2c87d4af760f3d",
    "sum-hard": "c0f749f1c443afb9",
    "sum-steps": "ece9d8def013e804",
}


def terms(prompt: str) -> tuple[int, ...]:
    return tuple(sorted(int(term) for term in prompt.removesuffix("=").split("+")))


@pytest.mark.parametrize("task", EMBEDDED)
def test_the_problems_never_change(task: str) -> None:
    train, validation = sum_problems(task, EMBEDDED[task].sums)
    text = "\n".join(f"{p.id}\t{p.prompt}\t{p.answer}" for p in (*validation, *train))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == PINNED[task]


@pytest.mark.parametrize("task", EMBEDDED)
def test_no_two_problems_add_the_same_numbers(task: str) -> None:
    train, validation = sum_problems(task, EMBEDDED[task].sums)
    assert (len(train), len(validation)) == (TRAIN_PROBLEMS, VALIDATION_PROBLEMS)
    problems = [*train, *validation]
    assert len({terms(problem.prompt) for problem in problems}) == len(problems)
    assert len({problem.id for problem in problems}) == len(problems)


@pytest.mark.parametrize("task", EMBEDDED)
def test_answers_are_right_and_leave_room_for_their_end(task: str) -> None:
    train, validation = sum_problems(task, EMBEDDED[task].sums)
    for problem in (*train, *validation):
        numbers = [int(term) for term in problem.prompt.removesuffix("=").split("+")]
        steps = problem.answer.split("=")
        assert int(steps[-1]) == sum(numbers)
        if EMBEDDED[task].sums.steps_written:
            assert [sum(map(int, step.split("+"))) for step in steps[:-1]] == list(accumulate(numbers))[1:]
            assert [int(step.split("+")[-1]) for step in steps[:-1]] == numbers[1:]
        assert len(problem.answer) + 1 <= EMBEDDED[task].max_response_tokens


def test_steps_are_written_out_where_the_task_says_so() -> None:
    sums = Sums(2, 5, 10, 99, steps_written=True)
    assert (sums.prompt([12, 34, 56]), sums.answer([12, 34, 56])) == ("12+34+56=", "12+34=46+56=102")
    assert Sums(3, 3, 10, 99, steps_written=False).answer([12, 34, 56]) == "102"


@given(st.text(max_size=20), st.integers(-50, 50), st.integers(0, 1000))
def test_drawn_numbers_stay_within_bounds_and_repeat(key: str, lowest: int, width: int) -> None:
    first, second = drawing(key), drawing(key)
    numbers = [first(lowest, lowest + width) for _ in range(20)]
    assert numbers == [second(lowest, lowest + width) for _ in range(20)]
    assert all(lowest <= number <= lowest + width for number in numbers)
