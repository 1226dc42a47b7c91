"""The champion: which configuration it is, how far its rate is from the rule, and how a plan stores it."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from budgets.errors import InputError
from planner.axes import LEARNING_RATE, MODEL, Value, named_configuration
from planner.rules import USUAL
from planner.view import Axes, Champion, Configuration

FACTORS = (LEARNING_RATE, "learning_rate_factor", "lr_factor")  # columns of recorded tables that hold the factor
LEAST_FACTOR = 1e-2  # anything below is a learning rate itself, of which no rule is known


def rate_octaves(axes: Axes) -> float | None:
    """Return the octaves of the factor on the rule's learning rate; None where the axes name a rate without a rule."""
    for name, value in axes:
        if name in FACTORS:
            factor = float(value)
            return math.log2(factor) if factor >= LEAST_FACTOR else None
    return 0.0


def same_but_rate(one: Configuration, other: Configuration) -> bool:
    """Say whether two configurations differ in their learning rate alone."""
    return one[:2] == other[:2] and _others(one.axes) == _others(other.axes)


def _others(axes: Axes) -> Axes:
    return tuple((name, value) for name, value in axes if name not in FACTORS)


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
    settings = {SIZES.get(name.casefold(), name): value for name, value in PAIR.findall(text)}
    if not settings or not all(name in settings for name in SIZES.values()):
        raise InputError(f"--champion '{text}' does not name n and B: write n=8,B=64, and other axes as recipe=dapo")
    alike = [choice for choice in configurations if _is_like(choice, settings)]
    if not alike:
        some = "; ".join(named_configuration(choice) for choice in configurations[:6])
        raise InputError(
            f"--champion '{text}' is none of the {len(configurations)} configurations. Give one, such as {some}"
        )
    return _candidates(alike)


def _is_like(configuration: Configuration, settings: dict[str, str]) -> bool:
    values: dict[str, Value] = {**configuration._asdict(), **dict(configuration.axes)}
    return all(name in values and _same(values[name], text) for name, text in settings.items())


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
    return tuple(
        min(choices, key=lambda choice: abs(rate_octaves(choice.axes) or 0.0)) for choices in by_model.values()
    )


def _octaves_from_usual(configuration: Configuration) -> float:
    n, B = USUAL[0]
    return math.hypot(math.log2(configuration.rollouts_per_prompt / n), math.log2(configuration.prompts_per_batch / B))


KEY = "champion"  # of a plan's configuration; a plan that explores the whole grid has none
MOST_LOOK_SHARE = 0.20  # of all GPU-hours: beyond, nothing takes the champion's place


def champion_data(champion: Champion, source: str) -> dict[str, Any]:
    """Return what a plan stores; `source` says where the champion comes from: script, flag, usual or advised."""
    return {
        "candidates": [_data(candidate) for candidate in champion.candidates],
        "usual": [_data(configuration) for configuration in champion.usual],
        "challenger_share": champion.challenger_share,
        "alarm_share": champion.alarm_share,
        "source": source,
    }


def champion_of(config: Mapping[str, Any], total_gpu_hours: float) -> Champion | None:
    """Return the champion of a plan's configuration with so many GPU-hours in all; None where it explores."""
    stored = config.get(KEY)
    if stored is None:
        return None
    return Champion(
        candidates=_configurations(stored["candidates"]),
        total_gpu_hours=total_gpu_hours,
        usual=_configurations(stored["usual"]),
        challenger_share=stored["challenger_share"],
        alarm_share=stored["alarm_share"],
    )


def most_of_challengers(champion: Champion) -> float:
    """Return the GPU-hours that challengers may take in all, an alarm or a look without a score provided."""
    share = 0.0 if champion.alone else max(champion.challenger_share, champion.alarm_share)
    return share * champion.total_gpu_hours


def most_of_a_sweep(champion: Champion) -> float:
    """Return the GPU-hours that may pass before the final run goes on: the last look, and all challengers."""
    return MOST_LOOK_SHARE * champion.total_gpu_hours + most_of_challengers(champion)


def _data(configuration: Configuration) -> dict[str, Any]:
    n, B, axes = configuration
    return {"rollouts_per_prompt": n, "prompts_per_batch": B, "axes": dict(axes)}


def _configurations(stored: Iterable[Mapping[str, Any]]) -> tuple[Configuration, ...]:
    return tuple(
        Configuration(row["rollouts_per_prompt"], row["prompts_per_batch"], tuple(row["axes"].items()))
        for row in stored
    )
