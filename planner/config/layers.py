"""One configuration out of several layers: defaults, the task, the file, the flags; a later one wins."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from budgets.errors import ConfigError, UnknownNameError
from planner.axes import plain
from planner.config.schema import AxesSection, Config
from planner.tables import Layer, Tables, explained, merged, read_tables

DEFAULT = "default"
LORA_RATE_TIMES = 10.0  # times that of all weights (Schulman et al., LoRA Without Regret, 2025)
RATE_WAYS = ("pass_rate", "pass_rates_file", "difficulty")  # three ways to say how hard the problems are
FORMS = {  # ways of saying one thing, by section
    "workload": {"pass_rate", "pass_rates_file"},
    "budget": {"gpu_hours", "dollars"},
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The configuration that counts, and the source of each value by its dotted key."""

    config: Config
    sources: Mapping[str, str]

    def source(self, key: str) -> str:
        """Say where a value comes from: a flag, a file, a task or the default."""
        return self.sources.get(key, DEFAULT)


def resolve(layers: Sequence[Layer]) -> Resolved:
    """Merge the layers, later ones winning, and check the result; ConfigError names the source and the fix."""
    for section, forms in FORMS.items():
        layers = _without_earlier_forms(layers, section, forms)
    tables, sources = merged(layers)
    try:
        return Resolved(Config.model_validate(tables), sources)
    except ValidationError as error:
        raise explained(error, Config, sources, DEFAULT) from error


def file_layer(path: Path) -> Layer:
    """Read a layer from a TOML file."""
    return Layer(str(path), read_tables(path, "configuration file", "`rlplan init` writes one"))


def task_layers(task: str, cores: int) -> list[Layer]:
    """Return the layers of an embedded task: its tiny model, on as many workers as this machine has cores."""
    if task not in embedded_tasks():
        raise UnknownNameError("task", task, embedded_tasks())
    source = f"task {task}"
    return [
        Layer(source, _shipped("_embedded")),
        Layer("this machine", {"hardware": {"gpus": cores}}),
        Layer(source, _shipped(task)),
        Layer(source, {"workload": {"task": task, "pass_rates_file": str(task_file(f"{task}.pass-rates.txt"))}}),
    ]


def flag_layer(flags: Mapping[str, tuple[str, Any]]) -> list[Layer]:
    """Turn flags, by dotted key with the flag's name and value, into layers; a value of None was not given."""
    layers = []
    for key, (flag, value) in flags.items():
        section, _, name = key.partition(".")
        if value is not None:
            layers.append(Layer(flag, {section: {name: value}}))
    return layers


def embedded_tasks() -> list[str]:
    """List the tasks that come with rlplan."""
    return sorted(file.stem for file in task_file(".").glob("*.toml") if not file.name.startswith("_"))


def task_file(name: str) -> Path:
    """Return where a file of the embedded tasks lies in the installed package."""
    return Path(str(files("planner.config").joinpath("tasks", name)))


def _without_earlier_forms(layers: Sequence[Layer], section: str, forms: set[str]) -> list[Layer]:
    """Drop what a later layer gives in another form: a flag then wins over a task's measured pass rates."""

    def keys(layer: Layer) -> set[str]:
        table = layer.tables.get(section)
        return forms & table.keys() if isinstance(table, Mapping) else set()

    last = next(filter(None, map(keys, reversed(layers))), forms)
    remaining = []
    for layer in layers:
        tables = dict(layer.tables)
        if stale := keys(layer) - last:
            tables[section] = {key: value for key, value in tables[section].items() if key not in stale}
        remaining.append(Layer(layer.source, tables))
    return remaining


def _shipped(name: str) -> Tables:
    return tomllib.loads(task_file(f"{name}.toml").read_text(encoding="utf-8"))


# An axis and the key that has its one value otherwise.
RECIPES, MODELS = ("axes.recipes", "recipe.name"), ("axes.models", "workload.model")
RATES, RATE_RANGE = "axes.learning_rates", "axes.learning_rate_range"


def collapse_single_values(resolved: Resolved) -> Resolved:
    """Return the configuration without axes of one value, which are written where that value otherwise stands.

    Where an axis and the value without it are both given, a flag wins over a file, and the axis over what nobody gave.
    """
    for axis, single in (RECIPES, MODELS):
        resolved = _collapse_names(resolved, axis, single)
    rate = "recipe.learning_rate"
    if resolved.config.cost.lora_rank is not None and resolved.source(rate) == DEFAULT:
        times = LORA_RATE_TIMES * resolved.config.recipe.learning_rate
        resolved = _with(resolved, {rate: times}, {rate: f"{LORA_RATE_TIMES:g} times the default, for LoRA"})
    return _collapse_rates(resolved)


def with_base_rate(resolved: Resolved, score: float | None, source: str) -> Resolved:
    """Return it with what the base model scored before training as its pass rate, where nobody states one."""
    if score is None or any(resolved.source(f"workload.{way}") != DEFAULT for way in RATE_WAYS):
        return resolved
    key = "workload.pass_rate"
    return _with(resolved, {key: min(0.99, max(0.01, score))}, {key: source})


def has_axes(section: AxesSection) -> bool:
    """Say whether anything beside n and B differs between configurations."""
    return any(value is not None for value in section.model_dump().values())


def require_distinct(axis: str, values: Sequence[str], name_of: Callable[[str], str]) -> None:
    """Raise ConfigError when two values of an axis have a name by which they could not be told apart later."""
    first_with: dict[str, str] = {}
    for value in values:
        name = name_of(value)
        first = first_with.setdefault(plain(name).casefold(), value)
        if values.index(first) != values.index(value) or values.count(value) > 1:
            raise ConfigError(
                f"{axis}: '{first}' and '{value}' are both called '{name}', and results are stored by that name: leave "
                "one out, or give it another name"
            )


def _collapse_names(resolved: Resolved, axis: str, single: str) -> Resolved:
    values = _get(resolved, axis)
    if values is None:
        return resolved
    if not _axis_wins(resolved, axis, single):
        return _with(resolved, {axis: None}, {})
    if not values:
        raise ConfigError(f"{resolved.source(axis)}: {axis} is empty: name at least one, or leave it out")
    if len(values) > 1:
        return resolved
    return _with(resolved, {axis: None, single: values[0]}, {single: resolved.source(axis)})


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


def _collapse_rates(resolved: Resolved) -> Resolved:
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
