"""One configuration out of several layers: defaults, the task, the file, the flags; a later layer wins.

Where each value came from is kept, because an error should name the file or flag, and an assumption its source.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from budgets.errors import ConfigError, UnknownNameError, suggest
from planner.config.schema import Config, Section

DEFAULT = "default"

Tables = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """Some of the values, and what to call the place they come from."""

    source: str
    tables: Tables


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
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        _merge(merged, layer.tables)
        sources.update((key, layer.source) for key in _dotted(layer.tables))
    try:
        return Resolved(Config.model_validate(merged), sources)
    except ValidationError as error:
        problems = [_explain(problem, sources) for problem in error.errors()]
        raise ConfigError("; ".join(problems)) from error


def file_layer(path: Path) -> Layer:
    """Read a layer from a TOML file."""
    try:
        return Layer(str(path), tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ConfigError(f"configuration file {path} does not exist; `rlplan init` writes one") from error
    except OSError as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {path} is not TOML: {error}") from error


def task_layers(task: str, cores: int) -> list[Layer]:
    """Return the layers of an embedded task: its tiny model, on as many workers as this machine has cores."""
    if task not in embedded_tasks():
        raise UnknownNameError("task", task, embedded_tasks())
    source = f"task {task}"
    return [
        Layer(source, _shipped("_embedded")),
        Layer("this machine", {"hardware": {"gpus": cores}}),
        Layer(source, {**_shipped(task)}),
        Layer(source, {"workload": {"task": task}}),
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
    folder = files("planner.config").joinpath("tasks")
    found = (entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return sorted(name for name in found if not name.startswith("_"))


def _shipped(name: str) -> Tables:
    return tomllib.loads(files("planner.config").joinpath("tasks", f"{name}.toml").read_text(encoding="utf-8"))


def _merge(into: dict[str, Any], tables: Tables) -> None:
    for key, value in tables.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _dotted(tables: Tables, prefix: str = "") -> Iterator[str]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _explain(problem: ErrorDetails, sources: Mapping[str, str]) -> str:
    """Turn one of pydantic's errors into: where, what was given, what is allowed."""
    place = ".".join(str(part) for part in problem["loc"])
    source = next((name for key, name in sources.items() if key == place or key.startswith(f"{place}.")), DEFAULT)
    if problem["type"] == "extra_forbidden":
        *path, name = (str(part) for part in problem["loc"])
        return f"{source}: unknown key '{place}': {suggest(name, _known_keys(path))}"
    if problem["type"] in ("model_type", "dict_type"):
        return f"{source}: {place} = {problem['input']!r} should be a table, such as [{place}]"
    allowed = problem["msg"].removeprefix("Input ")
    return f"{source}: {place} = {problem['input']!r} {allowed}"


def _known_keys(path: Sequence[str]) -> list[str]:
    model: type[BaseModel] = Config
    for part in path:
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, Section)):
            break
        model = annotation
    return list(model.model_fields)
