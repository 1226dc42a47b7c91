"""How the API speaks: errors name arguments, and objects show what they wrap."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter

from budgets.errors import RlplanError
from rlplan.wording.documents import Read

_FLAG = r"--([a-z]+(?:-[a-z]+)*)( (?=-?[\d'\"]|[A-Z]{2}))?"
_SPOKEN = re.compile(rf"`rlplan ([a-z]+)([^`]*)`|(?<=Run: )rlplan ([a-z]+)(.*)|{_FLAG}")
# What does in Python what a command does; what is not here only the shell can do.
_FUNCTIONS = {
    **{name: f"rlplan.{name}" for name in ("check", "fit", "launch", "propose", "resume", "retry")},
    "sweep": "rlplan.run",
}
_READ = {"status": "", "rank": ".ranked()", "recommend": ".recommend()", "decisions": ".decisions()"}


def reworded(text: str) -> str:
    """Write flags as arguments, and commands as calls where there is a function."""
    return _SPOKEN.sub(_in_python, text)


def _in_python(found: re.Match[str]) -> str:
    quoted, its_words, bare, words, flag, value = found.groups()
    if flag:
        return flag.replace("-", "_") + ("=" if value else "")
    verb, given = quoted or bare, shlex.split(its_words or words or "")
    places = [repr(each) for each in given[: next((i for i, each in enumerate(given) if each[:2] == "--"), None)]]
    if verb in _READ:
        call = f"rlplan.open().sweep({''.join(places)}){_READ[verb]}"
    elif verb in _FUNCTIONS:
        call = f"{_FUNCTIONS[verb]}({', '.join([*places, *_arguments(given[len(places) :])])})"
    else:
        return found[0]
    return f"`{call}`" if quoted else call


def _arguments(flags: list[str]) -> Iterator[str]:
    for name, value in zip(flags, [*flags, "--"][1:], strict=True):
        if name.startswith("--"):
            number = re.fullmatch(r"[\d.]+", value)
            given = "True" if value.startswith("--") else value if number else repr(value)
            yield f"{name[2:].replace('-', '_')}={given}"


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
