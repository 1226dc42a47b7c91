"""Functions made of requests: the flags of a command are the arguments of the function of its name."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast, get_type_hints, overload

from budgets.errors import suggest
from planner.curves.reading.tabular import Tabular
from rlplan.actions.adopting import Adopted
from rlplan.actions.fitting import Fits
from rlplan.actions.law_fitting import FittedLaws, compare_recipes
from rlplan.actions.previewing import Preview
from rlplan.answers.adopt import answer as answer_adopt
from rlplan.answers.check import answer as answer_check
from rlplan.answers.fit import answer as answer_fit
from rlplan.answers.fits import answer as answer_fits
from rlplan.answers.plan import Plan
from rlplan.answers.preview import answer as answer_preview
from rlplan.answers.price import answer as answer_price
from rlplan.answers.propose import answer as answer_propose
from rlplan.answers.replay import answer as answer_replay
from rlplan.answers.watch import answer as answer_watch
from rlplan.api.book import Book
from rlplan.api.sweep import Sweep
from rlplan.requests.checking import CheckRequest, FitsRequest
from rlplan.requests.foreign import AdoptRequest, CompareRequest, FitRequest, ReplayRequest, WatchRequest
from rlplan.requests.planning import PreviewRequest, PriceRequest, ProposeRequest
from rlplan.requests.request import Request, flags_of
from rlplan.wording.arguments import arguments_named
from rlplan.wording.formats import database_at

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


def function(
    name: str, request: Callable[P, R], answer: Callable[[R], A], without: Sequence[str] = ()
) -> Callable[P, A]:
    """Return the function that answers a request, and whose errors speak of arguments; it has no flags `without`."""
    taken, kinds = signature(request), get_type_hints(request)
    flags = flags_of(cast(type[Request], request))
    without = [name for name in taken.parameters if name in without or name not in flags]

    shown = [each.replace(annotation=kinds[name]) for name, each in taken.parameters.items() if name not in without]
    returned = getattr(answer, "__annotations__", {}).get("return", Parameter.empty)
    public = taken.replace(parameters=shown, return_annotation=returned)

    def call(*given: P.args, **named: P.kwargs) -> A:
        if unknown := next((each for each in named if each not in public.parameters), None):
            found = suggest(unknown, public.parameters)
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown}': {found}")
        with arguments_named():
            return answer(request(*given, **named))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _documented(request, without)
    vars(call).update(__signature__=public)  # what `help` shows
    return call


def _documented(request: Any, without: Sequence[str]) -> str:
    lines = (f"    {name}: {flag.help}" for name, flag in flags_of(request).items() if name not in without)
    return "\n".join((cleandoc(request.__doc__), "", "Args:", *lines))


class Fitting(Protocol[P]):
    """What `rlplan fit` is in Python: with a law the fits of that."""

    @overload
    # A law is a text among the flags too, so that the two overlap: the first that fits counts.
    def __call__(self, files: Tabular, *, law: str, **flags: Any) -> FittedLaws: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, *given: P.args, **named: P.kwargs) -> Fits: ...


def _fitting(request: Callable[P, FitRequest]) -> Fitting[P]:
    return cast(Fitting[P], function("fit", request, answer_fit))


def _adopted(asked: AdoptRequest) -> Sweep | Adopted:
    """Return the sweep that the runs became; what was read of them where there is none."""
    found = answer_adopt(asked)
    return found if found.sweep is None else Book(asked.db).sweep(found.sweep)


def which(given: Any, database: str) -> tuple[str | None, str]:
    """Return the name of a plan or sweep, and its own database where no other is named."""
    if isinstance(given, Plan | Sweep):
        return given.name, given.database if database == database_at(None) else database
    return given, database


def _previewed(asked: PreviewRequest) -> Preview:
    plan, database = which(asked.plan, asked.db)
    return answer_preview(replace(asked, plan=plan, db=database))


adopt = function("adopt", AdoptRequest, _adopted)
watch = function("watch", WatchRequest, answer_watch)
fit = _fitting(FitRequest)
check = function("check", CheckRequest, answer_check)
fits = function("fits", FitsRequest, answer_fits)
compare = function("compare", CompareRequest, compare_recipes)
propose = function("propose", ProposeRequest, answer_propose)
preview = function("preview", PreviewRequest, _previewed)
price = function("price", PriceRequest, answer_price)
replay = function("replay", ReplayRequest, answer_replay)


def forget_prices(run: str | Path, *, db: str | Path | None = None) -> int:
    """Take back what a run, by its path or name, or a sweep taught of prices; return how many records were removed."""
    found = price(forget=str(run), db=database_at(db))
    return int(found["records"])
