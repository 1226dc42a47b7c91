"""GPUs and models as data: one readable file each, and the parsing of a user's own entries."""

import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from budgets.errors import ConfigError, InputError, UnknownNameError, suggest
from budgets.hardware import Gpu
from budgets.model_config import shape_from_config
from budgets.models import ModelShape

_HUB = re.compile(r"[\w.-]+/[\w.-]+")  # an owner and a model, such as Qwen/Qwen2.5-7B-Instruct
Entry = TypeVar("Entry", Gpu, ModelShape)
Table = Mapping[str, Any]
NUMBER, WHOLE, SWITCH, TEXT = ("number", (int, float)), ("whole number", int), ("true or false", bool), ("text", str)
# Beginnings of names whose models have the shapes of another family, or leave out their size.
SAME_SHAPE = {
    "qwen2-": "qwen2.5-",
    "qwen2.5-vl-2b": "qwen2-vl-2b",
    "internvl3_5-": "internvl3.5-",
    "eurus-2-": "qwen2.5-",
    "glm-z1-": "glm-4-",
    "qwq-": "qwen2.5-",
    "openthinker-": "qwen2.5-",
    "qwen3.6-": "qwen3.5-",
    "llama-3-": "llama-3.1-",
    "mistral-nemo-": "mistral-nemo-12b-",
    "deepscaler-": "r1-distill-qwen-",
    "deepseek-math-": "deepseek-llm-",
}
KINDS: dict[Any, tuple[str, Any]] = {float: NUMBER, int: WHOLE, bool: SWITCH, str: TEXT}


def gpu(name: str, added: Mapping[str, Table] | None = None) -> Gpu:
    """Return a GPU of the catalogue or of the user's own tables; of one in several sizes the largest."""
    plain, gpus = re.sub(r"[\s_-]|nvidia|geforce", "", name.casefold()), [*table("gpus"), *(added or {})]
    alike = [gpu_name for gpu_name in gpus if re.fullmatch(rf"(rtx)?{re.escape(plain)}(-\d+)?", gpu_name.casefold())]
    exact = any(gpu_name.casefold() == name.casefold() for gpu_name in gpus)
    name = name if exact or not alike else alike[-1]
    return _entry(Gpu, "GPU", "gpus", name, added, "Add your own under [gpus.NAME] in rlplan.toml")


def model(name: str, added: Mapping[str, Table] | None = None) -> ModelShape:
    """Return a model of the catalogue or of the user's own tables, or the one that a local config.json describes.

    A name of the Hugging Face hub is that of the catalogue with words that do not change its shape, owner or not.
    """
    path = Path(name).expanduser()
    if path.suffix == ".json" or path.is_dir() or ("/" in name and (path.exists() or not _HUB.fullmatch(name))):
        return _model_from_file(name, path)
    if name.casefold() not in map(str.casefold, (*names("models"), *(added or ()))):
        with suppress(UnknownNameError):
            name = model_named(name)
    return _entry(ModelShape, "model", "models", name, added, "A path to a local config.json works too")


def model_named(name: str) -> str:
    """Return the catalogue's name of a model: that of 'Qwen/Qwen3-8B-Base' is qwen3-8b; or a folder with a config.json.

    The catalogue's name is there part by part; of several the longest counts.
    """
    if (Path(name).expanduser() / "config.json").is_file() or name.endswith(".json"):
        return name
    bare = name.rstrip("/").rpartition("/")[2].casefold()
    for other, alike in SAME_SHAPE.items():
        bare = bare.replace(other, alike)
    parts = re.split(r"[-_]", bare)

    def within(model_name: str) -> bool:
        remaining = iter(parts)
        return all(part in remaining for part in model_name.split("-"))

    known = names("models")
    if matches := [candidate for candidate in known if within(candidate)]:
        return max(matches, key=len)
    raise UnknownNameError("model", name, known, "Give {model}, or a folder with its config.json", model="NAME")


def names(catalogue: str) -> list[str]:
    """List what a catalogue file (`gpus`, `models`) holds."""
    return list(table(catalogue))


def _entry(
    kind: type[Entry], label: str, catalogue: str, name: str, added: Mapping[str, Table] | None, remedy: str
) -> Entry:
    tables = {**table(catalogue), **(added or {})}
    entry_name = next(
        (table for table in reversed(tables) if table.casefold() == name.casefold()), None
    )  # one of own wins
    if entry_name is None:
        raise UnknownNameError(label, name, tables, remedy)
    types = {field.name: field.type for field in fields(kind) if field.name != "name"}
    required = {field.name for field in fields(kind) if field.default is MISSING} - {"name"}
    for key, value in tables[entry_name].items():
        if key not in types:
            raise ConfigError(f"{label} '{entry_name}' has the unknown key '{key}': {suggest(key, types)}")
        word, accepted = KINDS[types[key]]
        if not isinstance(value, accepted) or isinstance(value, bool) != (types[key] is bool):
            raise ConfigError(f"{label} '{entry_name}': {key} is {value!r}, a value of type {word} is needed")
    if missing := sorted(required - set(tables[entry_name])):
        raise ConfigError(f"{label} '{entry_name}' lacks {', '.join(missing)}: give each a value")
    return kind(name=entry_name, **tables[entry_name])


def _model_from_file(name: str, path: Path) -> ModelShape:
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"model '{name}': {file} cannot be read ({error.strerror}); give a folder or a config.json"
        ) from error
    except ValueError as error:
        raise InputError(f"model '{name}': {file} is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise InputError(f"model '{name}': {file} holds no JSON object; a Hugging Face config.json is needed")
    return shape_from_config(file.resolve().parent.name if file.name == "config.json" else file.stem, config)


@cache
def table(catalogue: str) -> dict[str, Table]:
    """Return what a file of the catalogue holds."""
    tables = tomllib.loads(files(__package__).joinpath(f"{catalogue}.toml").read_text(encoding="utf-8"))
    for entry in tables.values():  # what is like another but for what it says itself
        entry.update({**tables.get(entry.pop("like", ""), {}), **entry})
    return tables
