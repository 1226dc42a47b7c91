"""Tables of files: their layers and where each value came from, checked sections, and mistakes explained."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from budgets.errors import ConfigError, suggest

Tables = Mapping[str, Any]

NESTED, TOO_DEEP = 100, "it is nested deeper than can be read"  # tables, lists and dotted keys within each other
_DOTTED = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{NESTED}}}""")


@dataclass(frozen=True, slots=True)
class Layer:
    """Some of the values, and what to call the place they come from."""

    source: str
    tables: Tables


def merged(layers: Sequence[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tables that count, and the source of each value by its dotted key."""
    tables: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        _merge(tables, layer.tables)
        sources.update((key, layer.source) for key, _ in flattened(layer.tables))
    return tables, sources


def flattened(tables: Tables, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """List the values of nested tables, each with its dotted key."""
    for key, value in tables.items():
        if isinstance(value, dict):  # not any Mapping, which takes ten times as long, and exports flatten millions
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def read_tables(path: Path, kind: str, remedy: str) -> dict[str, Any]:
    """Read a TOML file; the error calls it `what` and, where there is none, tells the remedy."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{kind} {path} does not exist; {remedy}") from error
    except OSError as error:
        raise ConfigError(f"{kind} {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{kind} {path} is not TOML: {error}") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a text of TOML; ValueError where it is none, or would take time and memory without end."""
    if _DOTTED.search(text):  # the work goes with the square of a key's parts
        raise ValueError(TOO_DEEP)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _merge(into: dict[str, Any], tables: Tables) -> None:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            _merge(into[key], value)
        else:
            into[key] = value


Value = TypeVar("Value")


class Section(BaseModel):
    """A table of the file: unknown keys are refused, and nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_NONE = BeforeValidator(lambda value: None if value == "none" else value)

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**15)]
OrNone = Annotated[Value | None, _NONE]  # TOML has no null: a file that overrides a number with nothing says "none"


def dotted_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """List the keys of a model and of its sections, such as objective.clip_high."""
    for name, field in model.model_fields.items():
        if section := _section(field):
            yield from dotted_keys(section, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def explained(
    error: ValidationError,
    model: type[BaseModel],
    sources: Mapping[str, str],
    fallback: str,
    further_keys: Sequence[str] = (),
) -> ConfigError:
    """Return the error that says of each mistake where it stands, what was given and what is allowed.

    `sources` names the place that each dotted key comes from, and `elsewhere` that of a mistake in none of them;
    `further_keys` are top-level keys of the file which the model does not hold.
    """
    flags = [source for source in sources.values() if source.startswith("--") and " " not in source]
    arguments = {flag: flag[2:].replace("-", "_") for flag in flags}
    places = {key: f"{{{arguments[source]}}}" if source in arguments else source for key, source in sources.items()}
    text = "; ".join(_explain(problem, model, places, fallback, further_keys) for problem in error.errors())
    return ConfigError(text, **dict.fromkeys(arguments.values()))


def _explain(
    problem: ErrorDetails,
    model: type[BaseModel],
    sources: Mapping[str, str],
    fallback: str,
    further_keys: Sequence[str],
) -> str:
    path = [str(part) for part in problem["loc"]]
    place = ".".join(path)
    below = (name for key, name in sources.items() if key.startswith(f"{place}."))
    source = sources.get(place) or next(below, fallback)
    if problem["type"] == "value_error":
        return f"{source}: {problem['msg'].removeprefix('Value error, ')}"
    if problem["type"] == "extra_forbidden":
        keys = list(_fields(model, path[:-1])) + ([] if path[:-1] else list(further_keys))
        return f"{source}: unknown key '{place}': {suggest(path[-1], keys)}"
    if problem["type"] in ("model_type", "dict_type"):
        return f"{source}: {place} = {problem['input']!r} should be a table, such as [{place}]"
    field = _fields(model, path[:-1]).get(path[-1])
    alternative = " or 'none'" if field is not None and _NONE in field.metadata else ""
    return f"{source}: {place} = {problem['input']!r} {problem['msg'].removeprefix('Input ')}{alternative}"


def _fields(model: type[BaseModel], path: Sequence[str]) -> dict[str, FieldInfo]:
    """Return the fields of the innermost section that the path leads to."""
    for part in path:
        if part.isdigit():  # of a list of tables
            continue
        section = _section(model.model_fields[part])
        if section is None:
            break
        model = section
    return model.model_fields


def _section(field: FieldInfo) -> type[Section] | None:
    kind: Any = field.annotation
    kind = next(iter(get_args(kind)), kind) if get_origin(kind) is list else kind
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None
