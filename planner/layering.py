"""Tables on top of each other: what a file says, over what it builds on; a later layer wins.

Where each value came from is kept, because an error should name the file or flag, and an assumption its source.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgets.errors import ConfigError

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


def read_tables(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """Read a TOML file; the error calls it `what` and, where there is none, tells the remedy."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{what} {path} does not exist; {remedy}") from error
    except OSError as error:
        raise ConfigError(f"{what} {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{what} {path} is not TOML: {error}") from error


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
