"""A file with one pass rate per prompt: plain lines, JSON, or a table with a header."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from budgets.errors import InputError
from budgets.signal import MeasuredPassRates

if TYPE_CHECKING:
    from planner.curves.files import Table

# What a column of pass rates is called, from the most to the least certain.
RATE_NAMES = (
    *("pass_rate", "pass_rates", "base_pass_rate", "*pass_rate*", "solve_rate", "success_rate", "rate"),
    *("pass@1", "avg@*", "mean@*", "accuracy", "acc", "mean_score", "score", "mean_reward", "reward"),
)
NUMBERING = re.compile(r"(^|_)(id|idx|index|number|seed)$|^n$", re.IGNORECASE)  # columns that only say which prompt
READ = "one rate a line, a CSV with a header, JSON lines or a JSON array"


def read_pass_rates(path: Path) -> MeasuredPassRates:
    """Read one pass rate per prompt, as a fraction or, where one is above 1, all of them in per cent."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"pass rates file {path} cannot be read ({reason}); give {READ}") from error
    column, plain = "", _numbers(text, path)
    if plain is None:
        from planner.curves.files.sources import read_table  # noqa: PLC0415 (numpy)

        try:
            table = read_table(path)[0]
        except InputError as error:
            raise InputError(f"pass rates file {path} cannot be read: {error}; give {READ}") from error
        column = _guessed(table, path)
        plain = table.columns[column].tolist()
        if (missing := next((row for row, rate in enumerate(plain, start=1) if math.isnan(rate)), None)) is not None:
            raise InputError(f"pass rates file {path}: row {missing} below the header has no number in '{column}'")
    rates: list[float] = plain
    for number, rate in enumerate(rates, start=1):
        if not 0 <= rate <= 100:
            raise InputError(
                f"pass rates file {path}, rate {number} is {rate:g}: each must lie between 0 and 1, or all in per cent"
            )
    in_percent = max(rates, default=0.0) > 1
    if in_percent and (small := next((rate for rate in rates if 0 < rate < 1), None)) is not None:
        raise InputError(
            f"pass rates file {path} holds {max(rates):g} as well as {small:g}: write all as fractions between 0 and "
            "1, or all in per cent"
        )
    notes = [f"column '{column}'"] * bool(column) + ["read as per cent"] * in_percent
    return MeasuredPassRates(tuple(rate / 100 for rate in rates) if in_percent else tuple(rates), ", ".join(notes))


def _numbers(text: str, path: Path) -> list[float] | None:
    """Return the numbers of a JSON array, or those on each line past blank ones and #; None where there is more."""
    if text.lstrip().startswith("[") and "{" not in text:
        text = text.strip().strip("[]").replace(",", "\n")
    rates: list[float] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        try:
            rates += [float(line)] if line and not line.startswith("#") else []
        except ValueError as error:
            if not rates:
                return None
            raise InputError(
                f"pass rates file {path}, line {number}: '{line[:40]}' is not a number; give {READ}"
            ) from error
    return rates


def _guessed(table: "Table", path: Path) -> str:
    from planner.curves.files.names import columns_like  # noqa: PLC0415 (numpy)
    from planner.curves.files.table import listing  # noqa: PLC0415

    for pattern in RATE_NAMES:
        if len(columns := columns_like(pattern, table.columns)) == 1:
            return columns[0]
    unnamed = [name for name in table.columns if not NUMBERING.search(name)]
    if len(unnamed) == 1:
        return unnamed[0]
    raise InputError(
        f"pass rates file {path}: which column holds the rates? Its columns of numbers are {listing(table.columns)}; "
        "call that one pass_rate"
    )
