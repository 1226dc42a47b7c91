"""Functions made of requests: the flags of a command are the arguments of the function of its name."""

from collections.abc import Callable
from dataclasses import fields
from inspect import cleandoc, signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

from rlplan.answers.price import answer as answer_price
from rlplan.answers.replay import answer as answer_replay
from rlplan.api.wording import arguments_named
from rlplan.requests.elsewhere import ReplayRequest
from rlplan.requests.planning import PriceRequest
from rlplan.wording.formats import database_at

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


def function(name: str, request: Callable[P, R], answer: Callable[[R], A]) -> Callable[P, A]:
    """Return the function that answers a request, and whose errors speak of arguments."""

    def call(*given: P.args, **named: P.kwargs) -> A:
        with arguments_named():
            return answer(request(*given, **named))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _documented(request)
    taken, kinds = signature(request), get_type_hints(request)
    shown = [each.replace(annotation=kinds[name]) for name, each in taken.parameters.items()]
    call.__signature__ = taken.replace(parameters=shown)  # type: ignore[attr-defined]  # what `help` shows
    return call


def _documented(request: Any) -> str:
    hints = get_type_hints(request, include_extras=True)
    lines = (f"    {each.name}: {get_args(hints[each.name])[1].help}" for each in fields(request))
    return "\n".join((cleandoc(request.__doc__), "", "Args:", *lines))


price = function("price", PriceRequest, answer_price)
replay = function("replay", ReplayRequest, answer_replay)


def forget_prices(run: str | Path, *, db: str | Path | None = None) -> int:
    """Take back what a run, by its path or name, or a sweep taught of prices; return how many records were removed."""
    found = price(forget=str(run), db=database_at(db))
    return int(found["records"])
