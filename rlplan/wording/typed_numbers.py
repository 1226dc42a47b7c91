"""Numbers as a person types them: thousands may be set off by commas or underscores."""

import math
import re

from budgets.errors import InputError

THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(?![\d,])")  # 0,5 is no 5: who writes so means a half


def number_in(text: str) -> float:
    """Read a number; NaN where there is none."""
    try:
        return float(_plainly(text))
    except ValueError:
        return math.nan


def plain_number(text: str, flag: str) -> float:
    """Read the number that a flag was given."""
    number = number_in(text)
    if math.isnan(number):
        raise InputError(f"{flag} '{text}' is not a number: write it as a plain number, such as 0.25")
    return number


def whole_number(text: str, flag: str) -> int:
    """Read the whole number that a flag was given."""
    try:
        return int(_plainly(text))  # also of more digits than a float holds
    except ValueError:
        number = number_in(text)
    if not number.is_integer():
        raise InputError(f"{flag} '{text}' is not a whole number: write it out, such as 1319")
    return int(number)


def gpu_hours(text: str, flag: str) -> float:
    """Read the GPU-hours that a flag was given."""
    return _above_zero(text, text, flag, "GPU-hours", "5000")


def gpu_hours_or_dollars(text: str, flag: str) -> float | str:
    """Read GPU-hours, or an amount of money such as $20000, which is kept as a text."""
    if not text.strip().startswith("$"):
        return _above_zero(text, text, flag, "GPU-hours", "5000, or of dollars, such as '$20000'")
    return f"${_above_zero(text, text.strip().removeprefix('$'), flag, 'dollars', chr(39) + '$20000' + chr(39)):.10g}"


def _above_zero(text: str, number: str, flag: str, unit: str, example: str) -> float:
    amount = number_in(number)
    if not math.isfinite(amount) or amount <= 0:
        raise InputError(
            f"{flag} '{text}' is not a number of {unit} above zero: write it out as a plain number, such as "
            f"{flag} {example}"
        )
    return amount


def names_in(text: str) -> list[str]:
    """Read names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _plainly(text: str) -> str:
    text = text.strip()
    return (text.replace(",", "") if THOUSANDS.match(text) else text).replace("_", "")
