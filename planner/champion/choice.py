"""Which of some configurations is the champion: the one that somebody names, else the usual one."""

import math
import re
from collections.abc import Iterable, Sequence

from budgets.errors import InputError
from planner.axes import MODEL, Value, named_configuration
from planner.champion.rates import rate_octaves
from planner.rules import USUAL
from planner.view import Axes, Configuration

SIZES = {"n": "rollouts_per_prompt", "b": "prompts_per_batch"}
PAIR = re.compile(r"\s*([\w.-]+)\s*=\s*([^,]+?)\s*(?:,|$)")


def usual_among(configurations: Iterable[Configuration]) -> tuple[Configuration, ...]:
    """Return of each model, recipe and rate the configuration nearest to the usual sizes, in octaves."""
    by_axes: dict[Axes, list[Configuration]] = {}
    for configuration in configurations:
        by_axes.setdefault(configuration.axes, []).append(configuration)
    return tuple(min(alike, key=_octaves_from_usual) for alike in by_axes.values())


def usual_champion(configurations: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """Return the usual choice at the rule's rate; of several models one each, which a race is to choose from."""
    return _candidates(usual_among(configurations))


def named_champion(text: str, configurations: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """Return the configuration that a text such as n=8,B=64,recipe=dapo names; of models that it leaves open one each.

    InputError where no configuration is like it.
    """
    wanted = _pairs(text)
    alike = [choice for choice in configurations if _is_like(choice, wanted)]
    if not alike:
        some = "; ".join(named_configuration(choice) for choice in configurations[:6])
        raise InputError(
            f"--champion '{text}' is none of the {len(configurations)} configurations. Give one, such as {some}"
        )
    return _candidates(alike)


def _pairs(text: str) -> dict[str, str]:
    pairs = {SIZES.get(name.casefold(), name): value for name, value in PAIR.findall(text)}
    if not pairs or not all(name in pairs for name in SIZES.values()):
        raise InputError(f"--champion '{text}' does not name n and B: write n=8,B=64, and other axes as recipe=dapo")
    return pairs


def _is_like(configuration: Configuration, wanted: dict[str, str]) -> bool:
    values: dict[str, Value] = {**configuration._asdict(), **dict(configuration.axes)}
    return all(name in values and _same(values[name], text) for name, text in wanted.items())


def _same(value: Value, text: str) -> bool:
    if isinstance(value, str):
        return value.casefold() == text.casefold()
    try:
        return math.isclose(value, float(text), rel_tol=1e-6)
    except ValueError:
        return False


def _candidates(alike: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """Leave of each model the one nearest to the rule's rate, the first of those that differ otherwise."""
    by_model: dict[Value | None, list[Configuration]] = {}
    for configuration in alike:
        by_model.setdefault(dict(configuration.axes).get(MODEL), []).append(configuration)
    return tuple(min(choices, key=_octaves_from_rule) for choices in by_model.values())


def _octaves_from_rule(configuration: Configuration) -> float:
    return abs(rate_octaves(configuration.axes) or 0.0)


def _octaves_from_usual(configuration: Configuration) -> float:
    n, B = USUAL[0]
    return math.hypot(math.log2(configuration.rollouts_per_prompt / n), math.log2(configuration.prompts_per_batch / B))
