"""The shape of every answer: one screen, whose end says what can be typed next, here and with this database."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlplan.wording.console import Part, Unbroken, wrapped_command
from rlplan.wording.formats import DEFAULT_DATABASE
from rlplan.wording.terminal import Canvas

SCREEN = 24  # lines of a terminal that nobody has made larger
ROWS = 8  # of a table, where nothing else is asked for
FEWEST_ROWS = 4
EXPLAIN = "--explain"
COMMENT = "  # "
SECRET = "***"  # what stands for a password in the place of a database


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command and what it does."""

    command: str
    does: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a command was called: its words, its database, and whether all of its answer is wanted."""

    words: tuple[str, ...]
    database: str = DEFAULT_DATABASE
    explain: bool = False

    def command(self, verb: str, name: str) -> str:
        """Return a command about a sweep or a plan as it has to be typed here."""
        return command(verb, name, self.database)

    def explained(self, does: str) -> NextStep:
        """Return the same command with all of its answer."""
        return self.with_flags(does, EXPLAIN)

    def with_flags(self, does: str, *flags: str) -> NextStep:
        """Return the same command with further flags."""
        words = [word for word in self.words if word != "--watch"]
        for number, word in reversed(list(enumerate(words))):
            if word == "--db" or word.startswith("--db="):  # it is added as it may be printed
                del words[number : number + 1 + (word == "--db")]
        return NextStep(_with_database(shlex.join(["rlplan", *words, *flags]), self.database), does)

    def without(self, does: str, flag: str, *flags: str) -> NextStep:
        """Return the same command without a flag, and with others."""
        return replace(self, words=tuple(word for word in self.words if word != flag)).with_flags(does, *flags)


def command(verb: str, name: str, database: str) -> str:
    """Return a command about a sweep or a plan; one that would hold a secret says where that goes."""
    return _with_database(f"rlplan {verb} {name}".rstrip(), database)


def typed_here(location: str) -> str:
    """Return the place of a file, or of a database, as it is typed in this folder."""
    place, here = Path(location), Path.cwd()
    return str(place.relative_to(here)) if place.is_relative_to(here) else location


def _with_database(line: str, database: str) -> str:
    if database == DEFAULT_DATABASE:
        return line
    if SECRET in database:
        return f"{line}{COMMENT}with RLPLAN_DB set"
    if "://" in database:
        from planner.store.engine import masked  # noqa: PLC0415 (imports SQLAlchemy, which a path needs not)

        if masked(database) != database:
            return f"{line}{COMMENT}with RLPLAN_DB set"
    return f"{line} --db {shlex.quote(database)}"


def next_steps(steps: Sequence[NextStep], canvas: Canvas) -> Iterator[Part]:
    """Return the last part of an answer; a command is broken between its flags alone, so that it can be pasted."""
    yield ""
    yield canvas.line("Next", "bold")
    column = 2 + max(len(step.command) for step in steps) + 2
    beside = column + max(len(step.does) for step in steps) <= canvas.width  # else the commands have to do
    for step in steps:
        line, *comment = step.command.split(COMMENT)
        lines = [step.command] if beside else wrapped_command(shlex.split(line), canvas.width - 2)
        lines[-1] = f"{lines[-1]:<{column - 2}}{step.does}" if beside else COMMENT.join([lines[-1], *comment])
        yield Unbroken([f"  {each}" for each in lines])


def one_screen(
    above: Sequence[Part], table: Callable[[int], Part], below: Sequence[Part], rows: int | None
) -> Iterator[Part]:
    """Return an answer around a table, which has the rows that are asked for, or those that a screen has room for."""
    taken = sum(len(part.lines) if isinstance(part, Unbroken) else 1 for part in (*above, *below))
    yield from above
    yield table(rows or max(FEWEST_ROWS, min(ROWS, SCREEN - taken - 1)))
    yield from below
