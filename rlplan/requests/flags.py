"""Requests: a command's flags are the fields of a frozen class, each declared once for the shell and for Python."""

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature
from operator import ge, gt, le, lt
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer

from budgets.errors import InputError
from budgets.hardware import LARGEST_BUDGET_GPU_HOURS
from rlplan.requests.completion import Offer
from rlplan.wording.command_lines import DEFAULT_DATABASE, Format, database_at
from rlplan.wording.numbers import gpu_hours, gpu_hours_or_dollars, plain_number, whole_number

READ: dict[Any, Callable[[str, str], Any]] = {int: whole_number, float: plain_number}


@dataclass(frozen=True)
class Flag:
    """What a shell knows of a field beside its name, its type and its default."""

    help: str
    metavar: str | None = None
    offer: Offer | Callable[..., list[str]] | None = None  # what is there when the tab key is pressed
    name: str | None = None  # of the flag, where it is not the field's
    short: str | None = None
    key: str | None = None  # of the configuration, that it sets
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    read: Callable[[str, str], Any] | None = None  # its text, under its name; by its type without this
    word: str | None = None  # that it takes in place of a number
    is_argument: bool = False
    env: str | None = None

    def parameter(self, name: str, of: Any, default: Any) -> Parameter:
        """Return what typer makes an option or an argument of."""
        kind = _first_type(of)
        said: dict[str, Any] = {"help": self.help, "autocompletion": self.offer, "envvar": self.env}
        plain = next((type_ for type_ in (kind, *get_args(kind)) if type_ in READ), None)
        if self.is_argument:
            given = typer.Argument(metavar=self.metavar, **said)
        else:
            flag, metavar = self.named(name), self.metavar
            if plain is not None:
                metavar = metavar or "|".join(filter(None, (f"<{plain.__name__}>", self.word)))
                said["parser"] = partial(_parsed, self.read or READ[plain], flag, self.word)
            names = (flag,) if self.short is None else (flag, self.short)
            given = typer.Option(*names, metavar=metavar, **said)
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, given])

    def named(self, name: str) -> str:
        """Return the flag of a field as it is typed."""
        return self.name or f"--{name.replace('_', '-')}"

    def require(self, name: str, value: Any) -> None:
        """Refuse a number that the field does not take."""
        bounds = (
            (self.least, "at least", ge),
            (self.above, "above", gt),
            (self.most, "at most", le),
            (self.below, "below", lt),
        )
        held = [(bound, word, holds) for bound, word, holds in bounds if bound is not None]
        if (
            value is None
            or isinstance(value, str)
            or not held
            or (math.isfinite(value) and all(holds(value, bound) for bound, _, holds in held))
        ):
            return
        allowed = " and ".join(f"{word} {bound:,.10g}" for bound, word, _ in held)
        raise InputError(f"{{{name}}}: it must be {allowed}", **{name: f"{value:g}"})


def flag(help: str, metavar: str | None = None, default: Any = None, **more: Any) -> Any:
    """Return a field that is a flag; `...` as its default has it given always."""
    of = {} if default is ... else {"default": default}
    return field(**of, metadata={"flag": Flag(help, metavar, **more)})


argument = partial(flag, is_argument=True)
toggle = partial(flag, default=False)
money = partial(flag, metavar="<gpu-hours>", read=gpu_hours, above=0, most=LARGEST_BUDGET_GPU_HOURS)
budget = partial(
    flag,
    metavar="<gpu-hours>|$<dollars>",
    read=gpu_hours_or_dollars,
    above=0,
    most=LARGEST_BUDGET_GPU_HOURS,
    key="budget.gpu_hours",
)


def _parsed(read: Callable[[str, str], Any], flag: str, word: str | None, text: Any) -> Any:
    if not isinstance(text, str) or text == word:  # a default is a number already
        return text
    try:
        return read(text, flag)
    except InputError as error:
        raise InputError(f"{error}, or {word}" if word else str(error)) from error


def _first_type(kind: Any) -> Any:
    """Return the type that the shell's text becomes, the first of those that Python may give."""
    several = [arg for arg in get_args(kind) if arg is not NoneType]
    if len(several) < 2 or not hasattr(kind, "__or__") or isinstance(kind, type):
        return kind
    return several[0] if NoneType not in get_args(kind) else several[0] | None


DATABASE = "The results database: a path, or an SQLAlchemy URL."
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

    db: str = field(default_factory=database_at, kw_only=True, metadata={"flag": Flag(DATABASE, env="RLPLAN_DB")})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "db", database_at(self.db))  # in Python it may be a Path, or None


def flags_of(request: type[Request]) -> dict[str, Flag]:
    """Return the flags by the names of their fields; other fields are what only code says."""
    return {item.name: item.metadata["flag"] for item in fields(request) if "flag" in item.metadata}


def command(request: type[Request]) -> Callable[..., int]:
    """Return the function that typer makes a command of: `RankRequest` is answered by `rlplan.commands.rank`.

    That module's `answer` is given the request.
    """
    name = request.__name__.removesuffix("Request").lower()
    module = f"rlplan.commands.{request.ANSWERED or name}"

    def run(context: typer.Context, **values: Any) -> int:
        format = values.pop("format") if request.PRINTS else Format.TABLE
        explain = values.pop("explain", False)
        from rlplan.wording.screen import Invocation  # noqa: PLC0415 (opens the way to the store)

        question = request(**values)
        answer = import_module(module).answer(question)
        called = Invocation(tuple(context.find_root().obj or ()), values.get("db", DEFAULT_DATABASE), explain)
        return 0 if answer is None else answer.emit(format, called)

    run.__name__, run.__doc__ = name, request.__doc__
    flags, kinds = flags_of(request), get_type_hints(request)
    defaults = {item.name: Parameter.empty if item.default is MISSING else item.default for item in fields(request)}
    parameters = [
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *(flag.parameter(name, kinds[name], defaults[name]) for name, flag in flags.items() if name != "db"),
        *([flags["db"].parameter("db", str, DEFAULT_DATABASE)] if "db" in flags else []),
        *([FORMAT.parameter("format", Format, Format.TABLE)] if request.PRINTS else []),
        *([EXPLAIN.parameter("explain", bool, False)] if request.PRINTS and request.EXPLAINS else []),
    ]
    vars(run).update(__signature__=Signature(parameters))
    run.__annotations__ = {row.name: row.annotation for row in parameters}
    return run
