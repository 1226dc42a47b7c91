"""Tables on top of each other: what a file says, over what it builds on; a later layer wins.

Where each value came from is kept, because an error should name the file or flag, and an assumption its source.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgets.errors import ConfigError

Tables = Mapping[str, Any]


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


def read_tables(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """Read a TOML file; the error calls it `what` and, where there is none, tells the remedy."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{what} {path} does not exist; {remedy}") from error
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what} {path} is not TOML: {error}") from error


def _merge(into: dict[str, Any], tables: Tables) -> None:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            _merge(into[key], value)
        else:
            into[key] = value
