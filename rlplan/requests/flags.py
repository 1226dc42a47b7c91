"""Flags: each is a field of a request, which says its help, how its text is read, and what a shell offers for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter
from types import NoneType
from typing import Annotated, Any, get_args

import typer

from rlplan.requests.completing import Offer
from rlplan.wording.typed_numbers import gpu_hours, plain_number, whole_number

READ: dict[Any, Callable[[str, str], Any]] = {int: whole_number, float: plain_number}


@dataclass(frozen=True)
class Flag:
    """What a shell knows of a field beside its name, its type and its default."""

    help: str
    metavar: str | None = None
    offer: Offer | Callable[..., list[str]] | None = None  # what is there when the tab key is pressed
    name: str | None = None  # of the flag, where it is not the field's
    short: str | None = None
    least: int | None = None
    read: Callable[[str, str], Any] | None = None  # its text, under its name; by its type without this
    is_argument: bool = False
    env: str | None = None

    def parameter(self, name: str, of: Any, default: Any) -> Parameter:
        """Return what typer makes an option or an argument of."""
        kind = _first_type(of)
        said: dict[str, Any] = {"help": self.help, "autocompletion": self.offer, "envvar": self.env, "min": self.least}
        plain = next((each for each in (kind, *get_args(kind)) if each in READ), None)
        if self.is_argument:
            return self._taken(name, kind, default, typer.Argument(metavar=self.metavar, **said))
        flag, metavar = self.name or f"--{name.replace('_', '-')}", self.metavar
        if plain is not None:
            metavar = metavar or f"<{plain.__name__}>"
            if self.least is None:
                said["parser"] = partial(_parsed, self.read or READ[plain], flag)
        names = (flag,) if self.short is None else (flag, self.short)
        return self._taken(name, kind, default, typer.Option(*names, metavar=metavar, **said))

    def _taken(self, name: str, kind: Any, default: Any, given: Any) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, given])


def flag(help: str, metavar: str | None = None, default: Any = None, **more: Any) -> Any:
    """Return a field that is a flag; `...` as its default has it given always."""
    of = {} if default is ... else {"default": default}
    return field(**of, metadata={"flag": Flag(help, metavar, **more)})


argument = partial(flag, is_argument=True)
toggle = partial(flag, default=False)
money = partial(flag, metavar="<gpu-hours>", read=gpu_hours)


def _parsed(read: Callable[[str, str], Any], flag: str, text: Any) -> Any:
    return read(text, flag) if isinstance(text, str) else text  # a default is a number already


def _first_type(kind: Any) -> Any:
    """Return the type that the shell's text becomes, the first of those that Python may give."""
    several = [each for each in get_args(kind) if each is not NoneType]
    if len(several) < 2 or not hasattr(kind, "__or__") or isinstance(kind, type):
        return kind
    return several[0] if NoneType not in get_args(kind) else several[0] | None
