"""Requests: a command's flags are the fields of a frozen class, each declared once for the shell and for Python."""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from importlib import import_module
from inspect import Parameter, Signature
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import typer

from rlplan.requests import options
from rlplan.wording.formats import DEFAULT_DATABASE, Format, database_at


@dataclass(frozen=True)
class Request:
    """What a command is asked: its docstring is the command's help, its annotated fields are the command's flags."""

    ANSWERED: ClassVar[str] = ""  # the module of `rlplan.answers` that does it, where it has not the command's name
    PRINTS: ClassVar[bool] = True  # whether there is an answer to print, in a format
    EXPLAINS: ClassVar[bool] = True  # whether there is more of the answer than the first screen


@dataclass(frozen=True)
class StoredRequest(Request):
    """What is asked of a database."""

    db: options.DatabaseOption = field(default_factory=database_at, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "db", database_at(self.db))  # in Python it may be a Path, or None


def flags_of(request: type[Request]) -> dict[str, Any]:
    """Return the fields that are flags, with their types; the others are what only code says."""
    hints = get_type_hints(request, include_extras=True)
    return {each.name: hints[each.name] for each in fields(request) if get_origin(hints[each.name]) is Annotated}


def command(request: type[Request]) -> Callable[..., int]:
    """Return the function that typer makes a command of: `RankRequest` is answered by `rlplan.answers.rank`.

    That module's `answer` is given the request.
    """
    name = request.__name__.removesuffix("Request").lower()
    module = f"rlplan.answers.{request.ANSWERED or name}"

    def run(context: typer.Context, **given: Any) -> int:
        format = given.pop("format") if request.PRINTS else Format.TABLE
        explain = given.pop("explain", False)
        asked = request(**given)
        found = import_module(module).answer(asked)
        called = options.invocation(context, given.get("db", DEFAULT_DATABASE), explain)
        return 0 if found is None else found.emit(format, called)

    run.__name__, run.__doc__ = name, request.__doc__
    parameters = list(_parameters(request).values())
    vars(run).update(__signature__=Signature(parameters), answered=module)  # where a tool finds what it answers
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _parameters(request: type[Request]) -> dict[str, Parameter]:
    """Return what the function takes: the request's own flags, then those of every command."""
    flags, defaults = flags_of(request), {each.name: _default(each) for each in fields(request)}
    own = {name: (_first_type(kind), defaults[name]) for name, kind in flags.items() if name != "db"}
    shared: dict[str, tuple[Any, Any]] = {
        **({"db": (flags["db"], DEFAULT_DATABASE)} if "db" in flags else {}),
        **({"format": (options.FormatOption, Format.TABLE)} if request.PRINTS else {}),
        **({"explain": (options.ExplainOption, False)} if request.PRINTS and request.EXPLAINS else {}),
    }
    declared = {"context": (typer.Context, Parameter.empty), **own, **shared}
    return {
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in declared.items()
    }


def _first_type(kind: Any) -> Any:
    """Return the type that the shell's text becomes, the first of those that Python may give."""
    of, *given = get_args(kind)
    several = [each for each in get_args(of) if each is not NoneType]
    if len(several) < 2:
        return kind
    first = several[0] if NoneType not in get_args(of) else several[0] | None
    return Annotated[first, *given]


def _default(declared: "Field[Any]") -> Any:
    return Parameter.empty if declared.default is MISSING else declared.default
