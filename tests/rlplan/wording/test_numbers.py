from collections.abc import Callable

import pytest

from budgets.errors import InputError
from rlplan.wording.draw import Canvas
from rlplan.wording.numbers import aligned_hours, count, duration, gpu_hours, hours, probability, steps, whole_number


@pytest.mark.parametrize(
    ("write", "numbers"),
    [
        (count, {7: "7", 999: "999", 999_600: "1M", 9.36e6: "9.36M", 1e9: "1B", 1.34e12: "1.34T", 38_000: "38k"}),
        (hours, {5000: "5,000", 99.97: "100", 26.1: "26.1", 7: "7", 0.03: "0.03"}),
        (aligned_hours, {5000: "5,000", 99.96: "100", 26.1: "26.1", 7: "7.00", 0.03: "0.0300"}),
        (
            duration,
            {
                0.0: "0 s",
                0.09 / 3600: "0.09 s",
                10 / 3600: "10 s",
                99.6 / 60: "100 min",
                0.05: "3 min",
                14: "14 h",
                62.5: "2.6 days",
                24 * 365 * 300: "109,500 days",
            },
        ),
        (steps, {3494: "3,494", 999_999: "999,999", 328_360_512: "328M"}),
        (probability, {None: "–", 0.0: "<0.01", 0.0049: "<0.01", 0.005: "0.01", 0.5: "0.50", 1.0: ">0.99"}),
    ],
)
def test_numbers_have_the_digits_and_the_unit_that_they_deserve(
    write: Callable[[float | None], str], numbers: dict[float | None, str]
) -> None:
    assert {number: write(number) for number in numbers} == numbers


@pytest.mark.parametrize(
    ("typed", "number"),
    [("64", 64), (" 1,024 ", 1024), ("1_000", 1000), ("2e3", 2000), ("9007199254740993", 2**53 + 1)],
)
def test_a_whole_number_may_be_typed_as_a_person_does(typed: str, number: int) -> None:
    assert whole_number(typed, "--gpus") == number


@pytest.mark.parametrize("typed", ["0,5", "2,5", "1,00", "1,0000"])
def test_a_comma_that_sets_off_no_thousands_is_refused(typed: str) -> None:
    with pytest.raises(InputError, match="is not a number of GPU-hours"):
        gpu_hours(typed, "--budget")


def test_no_line_is_broken_inside_a_number_and_its_sign() -> None:
    text = "Run n = 8, B = 16, steps × 2, gain 0.013 ± 0.002 after 5 GPU-hours"
    for width in range(16, len(text)):
        said = [line.plain for line in Canvas(width).lines(text)]
        assert " ".join(said) == text
        assert not any(line.endswith(("=", "×", "±", " n", "5")) or line[:1] in "=×±" for line in said)
