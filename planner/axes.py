"""The axes beside n and B: their names, how their values are written, and what is left when one is taken away."""

import json
import re
from collections.abc import Iterable, Mapping

from planner.view import Axes, Configuration

RECIPE, MODEL, GROWTH, LEARNING_RATE = "recipe", "model", "growth", "learning_rate"
# Values of these differ in kind; all others are numbers, of which one can be nearer to another than a third.
CATEGORICAL = (RECIPE, MODEL, GROWTH)

Value = str | float

# Values that go without saying: a configuration without them has these.
NEUTRAL: Mapping[str, Value] = {LEARNING_RATE: 1.0}


def value_of(axes: Axes, name: str) -> Value | None:
    """Return the value on an axis, None where it is none of the axes."""
    return dict(axes).get(name)


def text_of(axes: Axes, name: str) -> str | None:
    """Return the value on a categorical axis, None where it is none of the axes."""
    value = value_of(axes, name)
    return None if value is None else str(value)


def value_or_neutral(axes: Axes, name: str) -> Value | None:
    """Return the value on an axis, or the one that goes without saying."""
    return dict(axes).get(name, NEUTRAL.get(name))


def rate_factor(axes: Axes) -> float:
    """Return the factor on the rule's learning rate."""
    return float(value_or_neutral(axes, LEARNING_RATE) or 1.0)


def without(axes: Axes, name: str) -> Axes:
    """Return the other axes."""
    return tuple(axis for axis in axes if axis[0] != name)


def with_rate(axes: Axes, factor: float) -> Axes:
    """Return the axes with another factor on the learning rate, which stands last."""
    return (*without(axes, LEARNING_RATE), (LEARNING_RATE, factor))


def rounded_rate(factor: float, between: tuple[float, float]) -> float:
    """Return a factor with three digits, as names and people have it, that still lies in its range."""
    low, high = between
    return min(high, max(low, float(f"{factor:.3g}")))


def format_axes(axes: Axes) -> str:
    """Write the values for a person, such as 'scalerl, 0.5 × lr'."""
    return ", ".join(_format_axis(name, value) for name, value in axes)


def suffix(axes: Axes) -> str:
    """Write the values as the part of a trial's name that follows n and B; names are folders too."""
    return "".join(f"-{_part(name, value)}" for name, value in axes)


def as_text(axes: Axes) -> str:
    """Write the axes as a JSON object: equal axes give equal texts."""
    return json.dumps(dict(axes))


def from_text(text: str) -> Axes:
    """Read what `as_text` wrote; ValueError for a value that no axis has."""
    values: Mapping[str, Value] = json.loads(text)
    for value in values.values():
        if not isinstance(value, str) and not (isinstance(value, int | float) and abs(value) < 1e300):
            raise ValueError(f"{str(value)[:20]} is no value of an axis")
    return tuple(values.items())


def values_by_axis(all_axes: Iterable[Axes]) -> dict[str, list[Value]]:
    """Return the values that occur on each axis, each once, in the order of their first occurrence."""
    by_axis: dict[str, dict[Value, None]] = {}
    for axes in all_axes:
        for name, value in axes:
            by_axis.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in by_axis.items()}


def _format_axis(name: str, value: Value) -> str:
    if name == LEARNING_RATE:
        return f"{value:.3g} × lr" if isinstance(value, float) else f"{value} × lr"
    return str(value) if name in (RECIPE, MODEL) else f"{name} {value}"


def plain(value: Value) -> str:
    """Write a value with what a folder's name may hold on any system."""
    return f"{value:.6g}" if isinstance(value, float) else re.sub(r"[^\w.]+", "_", str(value))


def _part(name: str, value: Value) -> str:
    if name == LEARNING_RATE:
        return f"lr{plain(value)}"
    return plain(value) if name in (RECIPE, MODEL) else f"{name}{plain(value)}"


def named_configuration(configuration: Configuration) -> str:
    """How a sentence calls a configuration."""
    n, B, axes = configuration
    return f"n = {n}, B = {B}" + (f", {format_axes(axes)}" if axes else "")
