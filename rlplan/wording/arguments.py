"""How the API speaks: errors name arguments, and objects show what they wrap."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter

from budgets.errors import RlplanError
from rlplan.wording.documents import Read

_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)( (?=-?[\d'\"]|[A-Z]{2}))?")
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


class ArgumentLines(Read[tuple[str, ...]]):
    """Such a property of lines that speak of flags, and here are to speak of arguments."""

    def __init__(self, path: str, doc: str) -> None:
        lines = attrgetter(path)
        property.__init__(self, lambda each: tuple(map(reworded, lines(each))), doc=doc)
