"""Numbers as a person reads and types them: as many digits as they deserve, thousands set off."""

import math
import re
from collections.abc import Sequence
from datetime import datetime

from budgets.errors import InputError

UNKNOWN = "–"
ROUNDED_TO_100 = 99.95  # from which on three digits are 100


def hours(amount: float) -> str:
    """Write GPU-hours: thousands set off, three digits for small ones."""
    return f"{amount:,.0f}" if amount >= ROUNDED_TO_100 else f"{amount:.3g}"


def aligned_hours(amount: float | None) -> str:
    """Write GPU-hours for a column: always three digits, so that their sizes can be compared at a glance."""
    if amount is None:
        return UNKNOWN
    return f"{amount:,.0f}" if amount >= ROUNDED_TO_100 else f"{amount:#.3g}"


def count(number: float) -> str:
    """Write a large count with its unit, such as 9.4M."""
    number = float(f"{number:.3g}") if number >= 1000 else number  # or 999,600 would be 1000k
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


def steps(number: int | None) -> str:
    """Write a number of steps in full, unless it has more digits than a column holds."""
    if number is None:
        return UNKNOWN
    return f"{number:,}" if number < 1_000_000 else count(number)


def duration(wall_hours: float) -> str:
    """Write a wall time in its natural unit."""
    seconds = wall_hours * 3600
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 99.5 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.2g} s"


def rate(value: float | None) -> str:
    """Write a learning rate, such as 1.4e-6."""
    return UNKNOWN if value is None else f"{value:.2g}".replace("e-0", "e-")


def share(fraction: float) -> str:
    """Write a share of the whole, such as 40 % or 2.5 %."""
    return f"{100 * fraction:.3g} %"


def plural(number: int, what: str) -> str:
    """Write a count with its noun."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def listing(names: Sequence[object]) -> str:
    """Write names as an enumeration, such as 1, 2 and 5."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def difference(amount: float, error: float) -> str:
    """Write a difference of scores with its 90 % error; one that is smaller was not measured."""
    if abs(amount) <= error:
        return "no measurable difference"
    return f"{abs(amount):.2g} {'higher' if amount > 0 else 'lower'} (± {error:.2g})"


def moment(at: datetime) -> str:
    """Write a moment to the second, in UTC, as all that is stored is."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def interval(mean: float | None, low: float | None, high: float | None) -> str:
    """Write an expectation with its interval."""
    if mean is None:
        return UNKNOWN
    return f"{mean:.2f}" + (f" ({low:.2f}–{high:.2f})" if low is not None and high is not None else "")


def some_of(names: Sequence[str], most: int) -> str:
    """Write the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def probability(value: float | None) -> str:
    """Write a probability; one near 0 or 1 as a bound, since it is neither."""
    if value is None:
        return UNKNOWN
    if 0.005 <= value < 0.995:
        return f"{value:.2f}"
    return "<0.01" if value < 0.5 else ">0.99"


def layout_text(gpus: int, per_trial: int, per_pilot: int, pilots: int) -> str:
    """Say how many pilots run at once and on what; nothing where they have no GPUs of another number."""
    if not pilots or per_pilot == per_trial:
        return ""
    at_once, units = min(pilots, gpus // per_pilot), "GPU" if per_pilot == 1 else "GPUs"
    pilot = f"{at_once} pilots at once on {per_pilot} {units} each" if at_once > 1 else f"pilots on {per_pilot} {units}"
    return f"{pilot}; the final run on {per_trial}"


def shares(gpus: int, per_trial: int, per_pilot: int) -> str:
    """Say after the machine what a trial gets of it; nothing where that is all of it."""
    trial = f", {per_trial} a trial" if per_trial < gpus else ""
    if per_pilot == per_trial:
        return trial
    return f"{trial.replace('trial', 'final run')}, {per_pilot} a pilot"


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
