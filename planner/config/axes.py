"""The axes beside n and B, as configured: which values there are, and when an axis with one value is none."""

from collections.abc import Callable, Sequence
from typing import Any

from budgets.errors import ConfigError
from planner.axes import plain
from planner.config.layers import DEFAULT, Resolved
from planner.config.schema import AxesSection

# An axis and the key that has its one value otherwise.
RECIPES, MODELS = ("axes.recipes", "recipe.name"), ("axes.models", "workload.model")
RATES, RATE_RANGE = "axes.learning_rates", "axes.learning_rate_range"


def settled(resolved: Resolved) -> Resolved:
    """Return the configuration without axes of one value, which are written where that value otherwise stands.

    Where an axis and the value without it are both given, a flag wins over a file, and the axis over what nobody gave.
    """
    for axis, single in (RECIPES, MODELS):
        resolved = _settled_names(resolved, axis, single)
    return _settled_rates(resolved)


def has_axes(section: AxesSection) -> bool:
    """Say whether anything beside n and B differs between configurations."""
    return any(value is not None for value in section.model_dump().values())


def require_distinct(axis: str, given: Sequence[str], name_of: Callable[[str], str]) -> None:
    """Raise ConfigError when two values of an axis have a name by which they could not be told apart later."""
    taken: dict[str, str] = {}
    for value in given:
        name = name_of(value)
        first = taken.setdefault(plain(name).casefold(), value)
        if given.index(first) != given.index(value) or given.count(value) > 1:
            raise ConfigError(
                f"{axis}: '{first}' and '{value}' are both called '{name}', and results are stored by that name: leave "
                "one out, or give it another name"
            )


def _settled_names(resolved: Resolved, axis: str, single: str) -> Resolved:
    given = _get(resolved, axis)
    if given is None:
        return resolved
    if not _axis_wins(resolved, axis, single):
        return _with(resolved, {axis: None}, {})
    if not given:
        raise ConfigError(f"{resolved.source(axis)}: {axis} is empty: name at least one, or leave it out")
    if len(given) > 1:
        return resolved
    return _with(resolved, {axis: None, single: given[0]}, {single: resolved.source(axis)})


def _axis_wins(resolved: Resolved, axis: str, single: str) -> bool:
    source, other = resolved.source(axis), resolved.source(single)
    by_flag, other_by_flag = _is_flag(source), _is_flag(other)
    if by_flag != other_by_flag:
        return by_flag
    if other != DEFAULT and (source == other or by_flag):
        raise ConfigError(
            f"{source}: {axis} = {_get(resolved, axis)!r}, and {other}: {single} = {_get(resolved, single)!r}: they "
            "say the same thing twice, leave one out"
        )
    return True


def _settled_rates(resolved: Resolved) -> Resolved:
    listed, spread = _get(resolved, RATES), _get(resolved, RATE_RANGE)
    if listed is not None and spread is not None:
        raise ConfigError(
            f"{RATES} ({listed}) and {RATE_RANGE} ({spread}) are both given: a list of factors is tried as it is, a "
            "range is searched; keep one"
        )
    if spread is not None and (len(spread) != 2 or not spread[0] <= spread[1]):
        raise ConfigError(
            f"{resolved.source(RATE_RANGE)}: {RATE_RANGE} = {spread}: give the least and the largest factor of the "
            "learning rate, such as [0.3, 3.0]"
        )
    if listed is not None and len(set(listed)) < max(1, len(listed)):
        raise ConfigError(
            f"{resolved.source(RATES)}: {RATES} = {listed}: give each factor of the learning rate once, such as "
            "[0.3, 1.0, 3.0]"
        )
    factors = listed or spread
    if factors is None or len(set(factors)) > 1:
        return resolved
    rate = factors[0] * resolved.config.recipe.learning_rate
    key = "recipe.learning_rate"
    source = resolved.source(RATES if listed else RATE_RANGE)
    return _with(resolved, {RATES: None, RATE_RANGE: None, key: rate}, {key: source})


def _get(resolved: Resolved, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(resolved.config, section), name)


def _with(resolved: Resolved, values: dict[str, Any], sources: dict[str, str]) -> Resolved:
    config = resolved.config
    for key, value in values.items():
        section, _, name = key.partition(".")
        config = config.model_copy(update={section: getattr(config, section).model_copy(update={name: value})})
    return Resolved(config, {**resolved.sources, **sources})


def _is_flag(source: str) -> bool:
    return source.startswith("--")
