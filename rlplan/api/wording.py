"""How the API speaks: errors name arguments, and objects show what they wrap."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from textwrap import shorten

from budgets.errors import RlplanError
from rlplan.wording.answers import Read
from rlplan.wording.numbers import some_of

FEW, LONGEST = 4, 200  # of the parts of what a console shows of an object: how many, and the signs of each

_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)( (?=-?[\d'\"]))?")
_COMMAND = re.compile(r"`?rlplan [a-z]+ ")


def reworded(text: str) -> str:
    """Write flags as arguments; a text with a command of the shell stays as it is."""
    if _COMMAND.search(text):
        return text
    return _FLAG.sub(lambda flag: flag[1].replace("-", "_") + ("=" if flag[2] else ""), text)


@contextmanager
def arguments_named() -> Iterator[None]:
    """Let errors that are raised within speak of arguments instead of flags."""
    try:
        yield
    except RlplanError as error:
        error.args = tuple(reworded(each) if isinstance(each, str) else each for each in error.args)
        raise


def first_few(told: Sequence[str]) -> str:
    """Write the first texts, each cut short, and how many more there are: what a console has room for."""
    return some_of([shorten(each, LONGEST, placeholder=" …") for each in told], FEW)


class Said(Read[tuple[str, ...]]):
    """Such a property of lines that speak of flags, and here are to speak of arguments."""

    def __init__(self, path: str, doc: str) -> None:
        lines = attrgetter(path)
        property.__init__(self, lambda each: tuple(map(reworded, lines(each))), doc=doc)
