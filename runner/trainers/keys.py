"""A trainer's keys: dotted, as words of a command line, merged with the user's, and checked against known.txt.

`docs/tools/trainer_keys.py` writes NAME/known.txt, of a trainer that takes a mistyped key in silence and whose own
parser would not help: in a line some names that stand below one; `*`: anything may stand below that.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from budgets.errors import InputError

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


class DecidedError(InputError):
    """Settings of the user's are rlplan's to decide; `keys` are which."""

    def __init__(self, message: str, keys: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.keys = keys


def merged(ours: Mapping[str, Any], settings: Mapping[str, Any], free: Collection[str] = ()) -> dict[str, Any]:
    """Return our keys with the user's; InputError for one that is ours, or above or below one, and not `free`."""
    fixed = [key for key in ours if key not in free]
    if decided := sorted(key for key in settings if any(stands_with(key, ours_key) for ours_key in fixed)):
        raise DecidedError(
            f"[trainer.options.settings] {', '.join(decided)}: rlplan sets that itself, by the recipe, the allocation "
            "and the machine: leave it out",
            decided,
        )
    return {**ours, **settings}


def stands_with(key: str, ours: str) -> bool:
    """Whether a key is one of ours, or stands above or below it."""
    key, ours = key.lstrip("+~-"), ours.lstrip("+~-")
    return key == ours or key.startswith(f"{ours}.") or ours.startswith(f"{key}.")


def nested(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted keys as nested tables."""
    tables: dict[str, Any] = {}
    for key, value in keys.items():
        *above, name = key.split(".")
        table = tables
        for part in above:
            table = table.setdefault(part, {})
        table[name] = value
    return tables


def folder_of(trainer: str) -> Traversable:
    """Return where a trainer's driver is, with what belongs to it."""
    return files("runner.trainers").joinpath(trainer.replace("-", "_"))


@cache
def known_keys(trainer: str) -> tuple[str, dict[str, bool]]:
    """Return of which version the names are, and of each key whether anything may stand below it; nothing: any."""
    file = folder_of(trainer).joinpath("known.txt")
    if not file.is_file():
        return "", {}
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    keys: dict[str, bool] = {}
    for line in lines:
        above, colon, names = line.rpartition(": ")
        for name in names.split():
            keys[f"{above}.{name}" if colon and above else name] = name.endswith("*")
    return head.removeprefix("# "), {name.removesuffix("*"): free for name, free in keys.items()}


def require_known(trainer: str, keys: Iterable[str]) -> None:
    """Refuse keys that the trainer has not, with the nearest that it has."""
    version, names = known_keys(trainer)
    for key in keys if names else ():
        if not _is_known(key, names):
            near = get_close_matches(key, names, 3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "leave it out"
            raise InputError(f"'{key}' is no key of {version}, which is what rlplan knows of: {hint}")


def is_known(trainer: str, key: str) -> bool:
    """Whether the trainer has such a key; where no names are listed, any."""
    names = known_keys(trainer)[1]
    return not names or _is_known(key, names)


def _is_known(key: str, names: Mapping[str, bool]) -> bool:
    """Whether a key is there, or stands below one under which anything may."""
    above = key
    while above and above not in names:
        above = above.rpartition(".")[0]
    return above == key or (bool(above) and names[above])
