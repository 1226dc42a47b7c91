import pytest

from budgets.errors import InputError
from rlplan.wording.numbers import aligned_hours, count, duration, hours, steps
from rlplan.wording.typed_numbers import whole_number


@pytest.mark.parametrize(
    ("number", "written"), [(7, "7"), (999, "999"), (9.36e6, "9.36M"), (1e9, "1B"), (1.34e12, "1.34T"), (38_000, "38k")]
)
def test_counts_have_three_digits_and_a_unit(number: float, written: str) -> None:
    assert count(number) == written


@pytest.mark.parametrize(
    ("amount", "short", "aligned"),
    [(5000, "5,000", "5,000"), (26.1, "26.1", "26.1"), (7, "7", "7.00"), (0.03, "0.03", "0.0300")],
)
def test_hours_have_the_digits_they_deserve(amount: float, short: str, aligned: str) -> None:
    assert (hours(amount), aligned_hours(amount)) == (short, aligned)


@pytest.mark.parametrize(
    ("wall_hours", "written"),
    [(10 / 3600, "10 s"), (0.05, "3 min"), (14, "14 h"), (62.5, "2.6 days"), (24 * 365 * 300, "109,500 days")],
)
def test_wall_times_have_their_natural_unit(wall_hours: float, written: str) -> None:
    assert duration(wall_hours) == written


def test_steps_stay_within_a_column() -> None:
    assert (steps(3494), steps(999_999), steps(328_360_512)) == ("3,494", "999,999", "328M")


@pytest.mark.parametrize(
    ("typed", "number"),
    [("64", 64), (" 1,024 ", 1024), ("1_000", 1000), ("2e3", 2000), ("9007199254740993", 2**53 + 1)],
)
def test_a_whole_number_may_be_typed_as_a_person_does(typed: str, number: int) -> None:
    assert whole_number(typed, "--gpus") == number


@pytest.mark.parametrize("typed", ["many", "8.5", "", "nan", "inf"])
def test_what_is_no_whole_number_is_told_by_its_flag(typed: str) -> None:
    with pytest.raises(InputError, match=f"^--gpus '{typed}' is not a whole number: write it out"):
        whole_number(typed, "--gpus")
