"""How the page's templates write numbers, times and data."""

from datetime import UTC, datetime
from typing import Any

from planner.percent import percent
from rlplan.charts.chart import Chart
from rlplan.reading.sweep_words import remains
from rlplan.wording.numbers import UNKNOWN, aligned_hours, duration, hours, probability, rate, steps
from rlplan.wording.terminal import capital


def score(value: float | None) -> str:
    """Write a score with three digits, since a hundredth is what the best differ by."""
    return UNKNOWN if value is None else f"{value:.3f}"


def share(value: float | None) -> str:
    """Write a share in percent."""
    return UNKNOWN if value is None else percent(value)


def clock(value: datetime | None) -> str:
    """Write a time to the second, in UTC."""
    if value is None:
        return UNKNOWN
    utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}"


def figure(value: Any) -> str:
    """Write a value that a decision looked at: numbers with the digits that they deserve, the rest as it is."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: UNKNOWN}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{words(str(key))} {figure(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(figure(each) for each in value) or "none"
    return str(value)


def words(name: str) -> str:
    """Write a key as words."""
    return name.replace("_", " ").replace("gpu hour", "GPU-hour")


def tied(sentence: str) -> str:
    """Keep a percent sign on the line of its number."""
    return sentence.replace(" %", "\u00a0%")


def chart_json(chart: Chart) -> Any:
    """Write a chart's figure where a script element holds it."""
    from markupsafe import Markup  # noqa: PLC0415

    return Markup(chart.json)


_ALL = (score, share, clock, figure, words, tied, chart_json, remains)
_NUMBERS = (hours, aligned_hours, duration, steps, probability, rate, capital)
FILTERS: dict[str, Any] = {each.__name__: each for each in (*_ALL, *_NUMBERS)}
