"""From expressions and values to what a trainer is given: typed keys, and the words of a command line.

The tables come with rlplan, so that an expression is code of ours: Python over the given names, without any builtin.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from budgets.memory import FUSED, WHOLE
from planner.layering import flattened

OMIT = object()  # the value of a key that is not written
_EXPRESSION = re.compile(r"\{([^{}]+)\}")
_BARE = re.compile(r"[\w./@:+-]+")
_QUOTED = re.compile(r"(\\*)('|$)")  # Hydra takes backslashes as they are, but before a quotation mark


def joined(*paths: str) -> str:
    """Return paths as one variable has them, without empty ones."""
    return os.pathsep.join(filter(None, paths))


def home(path: str) -> str:
    """Return a path whose ~ is the user's folder."""
    return str(Path(path).expanduser())


def short(number: float) -> str:
    """Return a number as messages have it."""
    return f"{number:g}"


FUNCTIONS: Mapping[str, Any] = {
    **{each.__name__: each for each in (bool, dict, float, int, len, list, max, min, round, str, joined, home, short)},
    "ceil": math.ceil,
    "omit": OMIT,
    "WHOLE": WHOLE,
    "FUSED": FUSED,
}


def evaluated(value: Any, values: Mapping[str, Any]) -> Any:
    """Return what a value of a table means: that of its expression, or a text with the values of those in it."""
    if isinstance(value, list):
        return [evaluated(each, values) for each in value]
    if isinstance(value, Mapping):  # in a list, where keys are not dotted
        found = {key: evaluated(each, values) for key, each in value.items()}
        return {key: each for key, each in found.items() if each is not OMIT}
    if not isinstance(value, str):
        return value
    if whole := _EXPRESSION.fullmatch(value):
        return _result(whole[1], values)
    return _EXPRESSION.sub(lambda found: str(_result(found[1], values)), value)


def rendered(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a table, dotted, with what they mean."""
    found = {evaluated(key, values): evaluated(value, values) for key, value in flattened(table)}
    return {key: value for key, value in found.items() if value is not OMIT}


def expressions(value: Any) -> list[str]:
    """Return every expression in a value of a table."""
    if isinstance(value, Mapping):
        return [each for pair in value.items() for part in pair for each in expressions(part)]
    if isinstance(value, list):
        return [each for item in value for each in expressions(item)]
    return _EXPRESSION.findall(value) if isinstance(value, str) else []


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
        return f"{{{','.join(f'{key}:{hydra_word(each)}' for key, each in value.items())}}}"
    if isinstance(value, str) and not _BARE.fullmatch(value):
        return "'{}'".format(_QUOTED.sub(lambda found: 2 * found[1] + ("\\'" if found[2] else ""), value))
    return str(value)


def _result(expression: str, values: Mapping[str, Any]) -> Any:
    return eval(_compiled(expression), {"__builtins__": {}, **FUNCTIONS, **values})


@cache
def _compiled(expression: str) -> CodeType:
    return compile(expression.strip(), f"{{{expression}}}", "eval")
