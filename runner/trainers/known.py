"""The names of a trainer's keys, where it takes a mistyped one in silence and its own parser would not help.

`docs/tools/trainer_keys.py` writes NAME/known.txt: in a line some names that stand below one; `*`: anything may stand
below that.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from budgets.errors import InputError


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
    found: dict[str, bool] = {}
    for line in lines:
        above, colon, names = line.rpartition(": ")
        for name in names.split():
            found[f"{above}.{name}" if colon and above else name] = name.endswith("*")
    return head.removeprefix("# "), {name.removesuffix("*"): free for name, free in found.items()}


def require_known(trainer: str, keys: Iterable[str]) -> None:
    """Refuse keys that the trainer has not, with the nearest that it has."""
    version, known = known_keys(trainer)
    for key in keys if known else ():
        if not _is_known(key, known):
            near = get_close_matches(key, known, 3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "leave it out"
            raise InputError(f"'{key}' is no key of {version}, which is what rlplan knows of: {hint}")


def is_known(trainer: str, key: str) -> bool:
    """Whether the trainer has such a key; where no names are listed, any."""
    known = known_keys(trainer)[1]
    return not known or _is_known(key, known)


def _is_known(key: str, known: Mapping[str, bool]) -> bool:
    """Whether a key is there, or stands below one under which anything may."""
    above = key
    while above and above not in known:
        above = above.rpartition(".")[0]
    return above == key or (bool(above) and known[above])
