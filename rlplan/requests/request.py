"""Requests: a command's flags are the fields of a frozen class, each declared once for the shell and for Python."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any, ClassVar, get_type_hints

import typer

from rlplan.requests import options
from rlplan.requests.flags import Flag
from rlplan.wording.formats import DEFAULT_DATABASE, Format, database_at

FORMAT = Flag("How to print the result.")
EXPLAIN = Flag("Print the whole answer: what it rests on, and all of its lines.")


@dataclass(frozen=True)
class Request:
    """What a command is asked: its docstring is the command's help, its annotated fields are the command's flags."""

    ANSWERED: ClassVar[str] = ""  # the module of `rlplan.commands` that does it, where it has not the command's name
    PRINTS: ClassVar[bool] = True  # whether there is an answer to print, in a format
    EXPLAINS: ClassVar[bool] = True  # whether there is more of the answer than the first screen

    def __post_init__(self) -> None:
        for name, flag in flags_of(type(self)).items():
            flag.require(name, getattr(self, name))


@dataclass(frozen=True)
class StoredRequest(Request):
    """What is asked of a database."""

    db: str = field(
        default_factory=database_at, kw_only=True, metadata={"flag": Flag(options.DATABASE, env="RLPLAN_DB")}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "db", database_at(self.db))  # in Python it may be a Path, or None


def flags_of(request: type[Request]) -> dict[str, Flag]:
    """Return the flags by the names of their fields; other fields are what only code says."""
    return {each.name: each.metadata["flag"] for each in fields(request) if "flag" in each.metadata}


def command(request: type[Request]) -> Callable[..., int]:
    """Return the function that typer makes a command of: `RankRequest` is answered by `rlplan.commands.rank`.

    That module's `answer` is given the request.
    """
    name = request.__name__.removesuffix("Request").lower()
    module = f"rlplan.commands.{request.ANSWERED or name}"

    def run(context: typer.Context, **given: Any) -> int:
        format = given.pop("format") if request.PRINTS else Format.TABLE
        explain = given.pop("explain", False)
        asked = request(**given)
        found = import_module(module).answer(asked)
        called = options.invocation(context, given.get("db", DEFAULT_DATABASE), explain)
        return 0 if found is None else found.emit(format, called)

    run.__name__, run.__doc__ = name, request.__doc__
    flags, kinds = flags_of(request), get_type_hints(request)
    defaults = {each.name: Parameter.empty if each.default is MISSING else each.default for each in fields(request)}
    parameters = [
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *(flag.parameter(name, kinds[name], defaults[name]) for name, flag in flags.items() if name != "db"),
        *([flags["db"].parameter("db", str, DEFAULT_DATABASE)] if "db" in flags else []),
        *([FORMAT.parameter("format", Format, Format.TABLE)] if request.PRINTS else []),
        *([EXPLAIN.parameter("explain", bool, False)] if request.PRINTS and request.EXPLAINS else []),
    ]
    vars(run).update(__signature__=Signature(parameters))
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
