"""What a trainer is given: typed keys, and the words of a command line."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

OMIT: Any = object()  # the value of a key that is not written
_BARE = re.compile(r"[\w./@:+-]+")
_QUOTED = re.compile(r"(\\*)('|$)")  # Hydra takes backslashes as they are, but before a quotation mark


def present(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys without those that are not written."""
    return {key: value for key, value in keys.items() if value is not OMIT}


def dotted(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of sections by their dotted names, without those that are not written."""
    sections = ((f"{name}.", keys) if isinstance(keys, dict) else ("", {name: keys}) for name, keys in keys.items())
    return present({f"{above}{name}": value for above, keys in sections for name, value in keys.items()})


def python_path(*folders: str) -> str:
    """Return PYTHONPATH with folders before those that it has."""
    return os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH", ""))))


def words(keys: Mapping[str, Any], form: str) -> list[str]:
    """Return keys as words of a command line: as flags, as Hydra has them, or with values as JSON.

    Of flags, what is false or absent is left out, and what is true stands alone.
    """
    if form != "flags":
        written = hydra_word if form == "hydra" else json.dumps
        return [f"{key}={written(value)}" for key, value in keys.items()]
    flags: list[str] = []
    for name, value in keys.items():
        if value is None or value is False:
            continue
        values = value if isinstance(value, list) else [] if value is True else [value]
        flags += [f"--{name.removeprefix('--')}", *map(str, values)]
    return flags


def hydra_word(value: Any) -> str:
    """Return a value as Hydra's command line has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(hydra_word, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{hydra_word(part)}' for key, part in value.items())}}}"
    if isinstance(value, str) and not _BARE.fullmatch(value):
        return "'{}'".format(_QUOTED.sub(lambda match: 2 * match[1] + ("\\'" if match[2] else ""), value))
    return str(value)
