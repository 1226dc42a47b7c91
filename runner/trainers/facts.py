"""What the sources of a trainer that is on no package index know: its keys, with type, default, file and line.

`docs/tools/trainer_facts.py` writes them: the only guard where a trainer takes a mistyped key in silence.
"""

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from budgets.errors import InputError

_FREE = ("dict", "Dict", "seq", "map", "vf.", "RendererConfig", "EnvVars")  # types below which anything may stand


class Facts(NamedTuple):
    """The table of one trainer."""

    trainer: str
    version: str
    commits: tuple[str, ...]
    keys: Mapping[str, tuple[str, str, str]]  # type, default, where

    def knows(self, key: str) -> bool:
        """Whether a key, dotted, is there, or stands below one under which anything may."""
        if key in self.keys:
            return True
        above = key.rpartition(".")[0].removesuffix("[]")
        while above and above not in self.keys:
            above = above.rpartition(".")[0].removesuffix("[]")
        return bool(above) and any(free in self.keys[above][0] for free in _FREE)

    def require(self, keys: Mapping[str, Any]) -> None:
        """Refuse keys that the trainer has not, with the nearest that it has."""
        for key in flat_keys(keys) if keys else ():
            if not self.knows(key):
                near = get_close_matches(key, self.keys, 3)
                said = f"did you mean {' or '.join(map(repr, near))}?" if near else "leave it out"
                raise InputError(
                    f"'{key}' is no key of {self.trainer} {self.version} ({self.commits[0][:9]}), which is what rlplan "
                    f"knows of: {said}"
                )


@cache
def facts_of(trainer: str) -> Facts:
    """Return the table of a trainer."""
    package = f"runner.trainers.{trainer.replace('-', '_')}"
    table = tomllib.loads(files(package).joinpath("facts.toml").read_text(encoding="utf-8"))
    keys = {key: (said[0], said[1], said[2]) for key, said in table["keys"].items()}
    return Facts(trainer, table["version"], tuple(table["commits"]), keys)


def flat_keys(tables: Any, before: str = "") -> Iterator[str]:
    """Yield the dotted keys of nested tables; `[]` stands for the items of a list of tables."""
    if isinstance(tables, Mapping) and tables:
        for name, value in tables.items():
            yield from flat_keys(value, f"{before}.{name}" if before else name)
    elif isinstance(tables, list) and any(isinstance(each, Mapping) for each in tables):
        for each in tables:
            yield from flat_keys(each, f"{before}[]")
    else:
        yield before


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
