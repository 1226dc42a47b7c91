"""Requests: a command's flags are the fields of a frozen class, each declared once for the shell and for Python."""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any, ClassVar, get_type_hints

import typer

from rlplan.commands import options
from rlplan.wording.formats import DEFAULT_DATABASE, Format, database_at


@dataclass(frozen=True)
class Request:
    """What a command is asked; its docstring is the command's help, and its fields are its flags."""

    EXPLAINS: ClassVar[bool] = True  # whether there is more of the answer than the first screen

    db: options.DatabaseOption = field(default_factory=database_at, kw_only=True)


def command(request: type[Request]) -> Callable[..., int]:
    """Return the function that typer makes a command of: `RankRequest` is answered by `rlplan.answers.rank`.

    That module's `answer` is given the request.
    """
    name = request.__name__.removesuffix("Request").lower()

    def run(context: typer.Context, **given: Any) -> int:
        format, explain = given.pop("format"), given.pop("explain", False)
        asked = request(**given)
        found = import_module(f"rlplan.answers.{name}").answer(asked)
        from rlplan.wording.answers import emit  # noqa: PLC0415 (help and completion need no tables)

        emit(found, format, options.invocation(context, asked.db, explain))
        return 0

    run.__name__, run.__doc__ = name, request.__doc__
    run.__signature__ = Signature(list(_parameters(request).values()))  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in _parameters(request).values()}
    return run


def _parameters(request: type[Request]) -> dict[str, Parameter]:
    """Return what the function takes: the request's own flags, then those of every command."""
    hints = get_type_hints(request, include_extras=True)
    own = {each.name: (hints[each.name], _default(each)) for each in fields(request) if each.name != "db"}
    shared: dict[str, tuple[Any, Any]] = {
        "db": (hints["db"], DEFAULT_DATABASE),
        "format": (options.FormatOption, Format.TABLE),
        **({"explain": (options.ExplainOption, False)} if request.EXPLAINS else {}),
    }
    declared = {"context": (typer.Context, Parameter.empty), **own, **shared}
    return {
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in declared.items()
    }


def _default(declared: "Field[Any]") -> Any:
    return Parameter.empty if declared.default is MISSING else declared.default
