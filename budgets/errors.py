"""Every error that rlplan raises on purpose.

A message names what was given, what is allowed and what to do.
"""

import difflib
from collections.abc import Callable, Iterable


class RlplanError(Exception):
    """Base of everything that rlplan raises on purpose."""


class InputError(RlplanError, ValueError):
    """What was given is not allowed.

    `{learning_rate}` in a text stands for an argument, which each face spells: the command line, and so `str`, as
    `--learning-rate 0.1`, Python as `learning_rate=0.1`.
    """

    def __init__(self, text: str, **arguments: object) -> None:
        """Name the arguments of a text, each with its value, or with None where the name alone is meant."""
        self.text, self.arguments = text, arguments
        super().__init__(self.spelled(lambda name: f"--{name.replace('_', '-')}", " "))

    def spelled(self, name_of: Callable[[str], str], between: str) -> str:
        """Return the text with its arguments as a face spells them."""
        text = self.text
        for name, value in self.arguments.items():
            value_part = "" if value is None else f"{between}{value}"
            text = text.replace(f"{{{name}}}", name_of(name) + value_part)
        return text


class UnknownNameError(InputError):
    """There is nothing of that name; the message offers the nearest that exist."""

    def __init__(self, kind: str, given: str, known: Iterable[str], remedy: str = "", **arguments: object) -> None:
        sentence = suggest(given, known)
        end = "" if sentence.endswith("?") or not remedy else "."
        super().__init__(f"unknown {kind} '{given}': {sentence}{end} {remedy}".rstrip(), **arguments)


class ConfigError(InputError):
    """A configuration file, or a value in it, cannot be used."""


class InfeasibleError(InputError):
    """The workload does not fit the hardware; the message says by how much and what would make it fit."""


class NotFoundError(RlplanError, LookupError):
    """Nothing of that name is stored, or nothing is left to do."""


class MissingFileError(NotFoundError, InputError):
    """There is no such file; who reads several goes on with the others."""


class BudgetError(RlplanError):
    """The GPU-hours do not suffice for what was asked."""


class StoreError(RlplanError):
    """The results database cannot be used as it is."""


class StoreUnavailableError(StoreError):
    """The results database is locked, unreachable or has no room; the same may work again in a moment."""


class ClusterLostError(RlplanError):
    """Ray is lost again and again; what was trained is saved, and the sweep can be resumed."""


class TrainingError(RlplanError):
    """A trial cannot go on; its `kind` is a result that a sweep stores, such as out-of-memory.

    `tail` is the end of the log of whoever trained, where that is not our own.
    """

    def __init__(self, kind: str, message: str, tail: str = "") -> None:
        super().__init__(message)
        self.kind, self.tail = kind, tail

    def __reduce__(self) -> tuple[type["TrainingError"], tuple[str, str, str]]:
        # It crosses processes, and the default would lose the kind.
        return type(self), (self.kind, str(self), self.tail)


class CheckpointError(RlplanError):
    """A checkpoint is damaged, missing a part or cannot be written."""


class IllegalTransitionError(RlplanError, RuntimeError):
    """A trial was moved to a state that it cannot reach from where it is."""


def suggest(given: str, known: Iterable[str]) -> str:
    """Say which known names are nearest to what was given, or list them all when none is near."""
    names = sorted(known)
    by_folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(given.casefold(), by_folded, n=3, cutoff=0.55)
    if near:
        return "did you mean " + " or ".join(f"'{by_folded[name]}'" for name in near) + "?"
    return "known are " + ", ".join(names)
