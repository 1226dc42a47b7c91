"""One configuration out of several layers: defaults, the task, the file, the flags; a later layer wins."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from budgets.errors import UnknownNameError
from planner.checking import explained
from planner.config.schema import Config
from planner.layering import Layer, Tables, merged, read_tables

DEFAULT = "default"
RATE_KEYS = {"pass_rate", "pass_rates_file"}  # two ways of saying one thing


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
    tables, sources = merged(_without_earlier_rates(layers))
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


def _without_earlier_rates(layers: Sequence[Layer]) -> list[Layer]:
    """Drop pass rates that a later layer gives in the other form: a flag then wins over a task's measured ones."""
    kept: list[Layer] = []
    given: set[str] = set()
    for layer in reversed(layers):
        workload = layer.tables.get("workload")
        own = RATE_KEYS & workload.keys() if isinstance(workload, Mapping) else set()
        if isinstance(workload, Mapping) and own and given:
            stale = own - given
            rest = {key: value for key, value in workload.items() if key not in stale}
            kept.append(Layer(layer.source, {**layer.tables, "workload": rest}))
        else:
            kept.append(layer)
        given = given or own
    return kept[::-1]


def _shipped(name: str) -> Tables:
    return tomllib.loads(task_file(f"{name}.toml").read_text(encoding="utf-8"))
